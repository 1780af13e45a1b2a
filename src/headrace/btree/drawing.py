"""A drawing of a tree for people: a few children of each page, whatever the size of the tree."""

from __future__ import annotations

from typing import Final

from headrace.btree.footer_format import TreeRoot
from headrace.btree.page_format import (
    HEADER_BYTES,
    INDEX,
    LEAF,
    POINTER,
    VALUE_BYTES,
    Fetch,
    PageRef,
    entry_stride,
    open_page,
)

_SHOWN: Final = 2
"""Children that are drawn at either end of a page."""


def render(root: TreeRoot) -> Fetch[str]:
    """Return a drawing with the first and last children of each page, about four lines per page and level."""
    lines = [
        f"tree of {root.entries} entries with keys of {root.key_bytes} bytes, height {root.height}",
        f"{root.pages} pages, {root.live_bytes} bytes, live from offset {root.lowest}, end {root.end}",
    ]
    if root.note:
        lines.append(f"note {root.note.hex()}")
    if root.page is not None:
        yield from _draw(lines, root.page, root.height - 1, root.lowest, root.key_bytes, "")
    return "\n".join(lines) + "\n"


def _draw(
    lines: list[str], ref: PageRef, level: int, lowest: int, key_bytes: int, indent: str
) -> Fetch[None]:
    kind = INDEX if level else LEAF
    page, count = open_page(ref, (yield (ref,))[0], kind, key_bytes)
    stride = entry_stride(kind, key_bytes)
    name = "index page" if level else "leaf"
    from_lowest = f", lowest {lowest}" if level else ""
    lines.append(f"{indent}{name} at {ref.offset}, {ref.length} bytes, {count} entries{from_lowest}")
    indent += "  "
    for slot in range(count):
        if slot == _SHOWN and count > 2 * _SHOWN:
            lines.append(f"{indent}... {count - 2 * _SHOWN} more")
        if _SHOWN <= slot < count - _SHOWN:
            continue
        at = HEADER_BYTES + slot * stride
        key = page[at : at + key_bytes].hex()
        if level == 0:
            value = int.from_bytes(page[at + key_bytes : at + key_bytes + VALUE_BYTES], "big", signed=True)
            lines.append(f"{indent}{key} = {value}")
        else:
            offset, length, child_lowest = POINTER.unpack_from(page, at + key_bytes)
            lines.append(f"{indent}from {key}")
            yield from _draw(
                lines, PageRef(offset, length), level - 1, child_lowest, key_bytes, indent + "  "
            )
