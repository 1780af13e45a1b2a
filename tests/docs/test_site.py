"""The site builds without a warning, shows every page, and fetches nothing from other hosts."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import headrace
from tests.effort import soak

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser fetches by itself, by element; links that readers follow are not in it."""


def build(configuration, directory):
    """Build a site; ``--quiet`` would hide warnings from what makes errors of them."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "-f",
        str(configuration),
        "--site-dir",
        str(directory),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; an unknown link, anchor, page or Python name is an error of the build."""
    directory = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", directory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return directory


@pytest.mark.slow
def test_a_page_without_a_place_and_links_to_nothing_fail_the_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home")
    (tmp_path / "docs" / "orphan.md").write_text("# Orphan\n\n[a](no.md) [b](index.md#no) ![c](no.svg)")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: [{ROOT / 'tools' / 'site_hooks.py'}]\n"
        "plugins: [search]\nnav: [index.md]\n"
    )
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert done.stderr.count("WARNING") == 4


class Fetches(HTMLParser):
    """Collects the addresses that a page makes its reader's browser fetch."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in FETCHED and given.get("rel") not in {"canonical", "prev", "next"}:
            self.found.add(given.get(FETCHED[tag]) or "")


def fetched(text):
    parser = Fetches()
    parser.feed(text)
    return parser.found


@soak
@pytest.mark.slow
def test_the_site_shows_every_page_and_asks_no_other_host(site):
    for page in PAGES:
        path = page.relative_to(ROOT / "docs")
        name = "index" if path.name == "README.md" else path.stem
        html = (site / path.parent / f"{name}.html").read_text()
        assert 'class="md-nav' in html
        assert [each for each in fetched(html) if re.match(r"(https?:)?//", each)] == [], path
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style


def test_what_a_browser_would_fetch_is_noticed():
    page = (
        '<a href="https://a.b/c"></a><link rel="stylesheet" href="//d.e/f.css"><script src="https://g.h/i">'
    )
    assert fetched(page) == {"//d.e/f.css", "https://g.h/i"}


def test_every_public_name_of_the_package_is_on_a_page_of_the_reference():
    folder = ROOT / "docs" / "reference" / "python"
    text = "\n".join(page.read_text() for page in folder.glob("*.md"))
    documented = set(re.findall(r"^::: headrace\.(\w+)$", text, re.MULTILINE))
    documented |= set(re.findall(r"^    options: \{heading: (\w+),", text, re.MULTILINE))
    modules = {"aio", "errors"}
    older_names = {name for name in headrace.__all__ if name.startswith("Blocking")}
    assert set(headrace.__all__) - modules - older_names - documented == set()


@soak
@pytest.mark.slow
def test_the_search_has_guides_in_front_of_pages_for_builders_and_of_twins(site):
    """What the search multiplies the score of a page by, as its index says it."""
    index = json.loads((site / "search" / "search_index.json").read_text())
    boosts = {}
    for entry in index["docs"]:
        boosts.setdefault(entry["location"].partition("#")[0], set()).add(entry.get("boost", 1))
    assert all(len(found) == 1 for found in boosts.values())
    found = {page: boost for page, (boost,) in boosts.items()}
    builders = [found[page] for page in found if page.split("/")[0] in {"flows", "formats", "decisions"}]
    users = [found[page] for page in found if page.startswith("reference/python/") and "aio" not in page]
    assert found["guides/python.html"] > found["operating/runbook.html"] > max(users)
    assert min(users) > max(builders)
    assert found["reference/python/aio.html"] < min(users) / 4
