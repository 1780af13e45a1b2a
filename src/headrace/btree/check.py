"""The proof that a tree is whole: every page is read."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple, NoReturn

from headrace.btree.footer_format import FOOTER_BYTES, TreeRoot
from headrace.btree.page_format import (
    HEADER_BYTES,
    INDEX,
    LEAF,
    POINTER,
    Buffer,
    Fetch,
    PageRef,
    entry_stride,
    open_page,
    verify_page,
)
from headrace.errors import DataCorruptionError

_CHECK_PAGES_MAX: Final = 64


class TreeCheck(NamedTuple):
    """What was found, all of it as the root says."""

    entries: int
    pages: int
    live_bytes: int


class _Subtree(NamedTuple):
    ref: PageRef
    level: int
    lowest: int
    first: bytes
    bound: bytes | None
    """First key behind the subtree; None if there is none."""


def check(root: TreeRoot) -> Fetch[TreeCheck]:
    """Read all pages and prove what the format promises: checksums, order, ranges, lowest offsets, numbers.

    Takes memory for one offset per page.

    Raises:
        DataCorruptionError: says what is wrong, and with the page at which offset.
    """
    entries = live_bytes = 0
    seen: dict[int, int] = {}
    waiting: list[_Subtree] = []
    if root.page is not None:
        waiting.append(_Subtree(root.page, root.height - 1, root.lowest, bytes(root.key_bytes), None))
    elif root.lowest != root.end or root.height:
        _fail("an empty tree has pages or live bytes", root.end)
    while waiting:
        at_once = waiting[-_CHECK_PAGES_MAX:]
        del waiting[-_CHECK_PAGES_MAX:]
        for subtree, data in zip(at_once, (yield [subtree.ref for subtree in at_once]), strict=True):
            ref = subtree.ref
            if ref.offset in seen:
                _fail("page is in the tree twice", ref.offset)
            if not root.lowest <= ref.offset <= root.end - FOOTER_BYTES - ref.length:
                _fail("page lies outside the live part of the log", ref.offset)
            seen[ref.offset] = ref.length
            live_bytes += ref.length
            count, children = _check_page(root, subtree, data)
            waiting += children
            entries += count if subtree.level == 0 else 0
    end = 0
    for offset in sorted(seen):
        if offset < end:
            _fail("page begins within another one", offset)
        end = offset + seen[offset]
    found = TreeCheck(entries, len(seen), live_bytes)
    if found != (root.entries, root.pages, root.live_bytes):
        _fail(f"the footer tells of other numbers than {found}", root.end)
    return found


def _check_page(root: TreeRoot, subtree: _Subtree, data: Buffer) -> tuple[int, list[_Subtree]]:
    """Return the number of entries of a page, and the subtrees below it."""
    ref, level, lowest, first, bound = subtree
    key_bytes = root.key_bytes
    verify_page(ref, data, key_bytes)
    kind = INDEX if level else LEAF
    page, count = open_page(ref, data, kind, key_bytes)
    if count == 0:
        _fail("page is empty", ref.offset)
    stride = entry_stride(kind, key_bytes)
    starts = range(HEADER_BYTES, len(page), stride)
    keys = [bytes(page[at : at + key_bytes]) for at in starts]
    if any(below >= above for below, above in pairwise(keys)):
        _fail("keys are not ascending", ref.offset)
    if bound is not None and keys[-1] >= bound:
        _fail("key lies above the range of its page", ref.offset)
    if level == 0:
        if keys[0] < first:
            _fail("key lies below the range of its page", ref.offset)
        if lowest != ref.offset:
            _fail(f"lowest offset of a leaf is said to be {lowest}", ref.offset)
        return count, []
    if keys[0] != bytes(key_bytes):
        _fail("first key of an index page is not zero", ref.offset)
    if count > 1 and keys[1] <= first:
        _fail("key lies below the range of its page", ref.offset)
    keys[0] = first
    bounds = [*keys[1:], bound]
    below = []
    for at, key, above in zip(starts, keys, bounds, strict=True):
        offset, length, child_lowest = POINTER.unpack_from(page, at + key_bytes)
        if offset >= ref.offset:
            _fail("child lies behind its parent", ref.offset)
        below.append(_Subtree(PageRef(offset, length), level - 1, child_lowest, key, above))
    if min(child.lowest for child in below) != lowest:
        _fail(f"lowest offset of a subtree is said to be {lowest}", ref.offset)
    return count, below


def _fail(message: str, offset: int) -> NoReturn:
    raise DataCorruptionError(f"tree: {message}, at offset {offset}", offset=offset)
