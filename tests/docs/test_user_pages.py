"""Every block of code on a page for users runs, in the page's order, and prints what the page says."""

from pathlib import Path

import pytest

from headrace.testing import LocalServer
from tests.docs.page_blocks import blocks_of, is_printed
from tests.docs.page_runner import PageRunner, run_page
from tests.docs.source_texts import is_said

DOCS = Path(__file__).parents[2] / "docs"
FOLDERS = ("guides", "operating", "reference/python")
PAGES = [
    page
    for page in sorted(
        [DOCS / "index.md", *(page for each in FOLDERS for page in (DOCS / each).glob("*.md"))]
    )
    if page.name not in {"runbook.md", "security.md"}  # by tests of their own
    and not page.name.startswith("spark")
    and blocks_of(page.read_text())
]
NOT_RUN_MAX = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page, server, tmp_path):
    runner = PageRunner(tmp_path, server)
    try:
        run_page(runner, page.name, blocks_of(page.read_text()))
    finally:
        runner.close()


def test_few_blocks_are_not_run():
    unrun = [
        (page.name, block.reason) for page in PAGES for block in blocks_of(page.read_text()) if block.reason
    ]
    assert len(unrun) <= NOT_RUN_MAX, unrun


@pytest.mark.parametrize(
    "words",
    ["is in use by", "cannot listen on", "is a server running there?", "not installed for this Python"],
)
def test_the_messages_that_the_first_page_explains_are_said(words):
    assert words in (DOCS / "guides" / "first-stream.md").read_text()
    assert is_said(words)


PAGE = """
# A page
<!-- run first
import json
-->

```python
print(json.dumps({"a": 1}))
```

```text
{"a": ...}
```

<!-- not run: it deletes everything -->
```sh
headrace scope delete demo
```

1. A step:

    ```sh
    headrace scope list
    ```
"""


def test_blocks_are_found_in_order_with_what_they_print():
    found = blocks_of(PAGE)
    assert [(each.language, each.line, each.reason, each.output) for each in found] == [
        ("python", 4, "", None),
        ("python", 8, "", '{"a": ...}\n'),
        ("sh", 17, "it deletes everything", None),
        ("sh", 23, "", None),
    ]
    assert found[3].code == "headrace scope list\n"


def test_a_block_that_nobody_would_run_is_refused():
    with pytest.raises(ValueError, match="line 2: nobody runs a block of the language 'bash'"):
        blocks_of("```bash\nls\n```\n")


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a  b\n", "a b", True),
        ("a ... b", "a 17 x\ny b\n", True),
        ("a\n...\n", "a\nb\nc\n", True),
        ("a", "a b", False),
        ("a ... b", "a 17", False),
        ("a.c", "abc", False),
    ],
)
def test_what_is_printed_is_compared_loosely(expected, printed, same):
    assert is_printed(expected, printed) is same
