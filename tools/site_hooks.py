"""What mkdocs.yml cannot say: folders in the navigation, and links that leave the pages."""

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[([^\]\n]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")

BOOSTS = (
    ("index.md", 4.0),
    ("guides/", 8.0),
    ("operating/", 4.0),
    ("reference/python/aio.md", 0.25),  # the twin of every call stands on the other pages
    ("reference/", 2.0),
    ("flows/", 0.5),
    ("formats/", 0.5),
    ("decisions/", 0.25),
    ("contributing/", 0.25),
)
"""By the beginning of a page's name; what is not here has 1."""

CELL = re.compile(r"<td.*?</td>", re.DOTALL)
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Put all pages of a folder in the place of its name, an overview first."""
    config.nav = _expand(config.nav, sorted(page.src_uri for page in files.documentation_pages()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leave the words of links to sources, which are in the repository and not on the site. Say how far in
    front the page is in answers of the search.
    """
    page.meta.setdefault("search", {})["boost"] = boost_of(page.file.src_uri)
    folder = posixpath.dirname(page.file.src_uri)

    def replace(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[2]))
        return found[1] if target.startswith("../") else found[0]

    return LINK.sub(replace, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Drop the roles of Sphinx that docstrings have for editors, and what escapes a bar in a cell."""
    return CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), ROLE.sub("<code>", html))


def boost_of(page: str) -> float:
    """Return by how much the search multiplies the score of a page: users come before builders."""
    return next((boost for beginning, boost in BOOSTS if page.startswith(beginning)), 1.0)


def _expand(item: Any, pages: list[str]) -> Any:
    if isinstance(item, dict):
        return {title: _expand(inner, pages) for title, inner in item.items()}
    if isinstance(item, list):
        return [_expand(inner, pages) for inner in item]
    if not item.endswith("/"):
        return item
    inside = [page for page in pages if page.startswith(item)]
    return sorted(inside, key=lambda page: (posixpath.basename(page) not in {"README.md", "index.md"}, page))
