"""Indexes of tables in memory, one dict per state; what was written survives a crash with its segment.

Fault model: a write waits, or fails with or without having happened; a read waits, and then answers from the
state that was current when it began; nothing is in memory (``is_cold``).
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from headrace.errors import ContainerOfflineError, HeadraceError, NoSuchSegmentError
from headrace.limits import INT64_MIN
from headrace.segmentstore.state.segment_state import SegmentState


@dataclass(frozen=True, slots=True, eq=False)
class MemoryRoot:
    """One state of an index."""

    tree: Mapping[bytes, int] = field(default_factory=dict)
    note: bytes = b""

    @property
    def page(self) -> object | None:
        return self.tree or None

    @property
    def entries(self) -> int:
        return len(self.tree)


@dataclass(slots=True)
class StoredIndex:
    """What a crash leaves."""

    root: MemoryRoot = field(default_factory=MemoryRoot)


class MemoryRange(NamedTuple):
    keys: bytes
    values: array[int]


class MemoryIndex:
    """A ``TableIndex``."""

    def __init__(
        self, owner: MemoryIndexes, stored: StoredIndex, key_bytes: int, segment: SegmentState
    ) -> None:
        self.key_bytes = key_bytes
        self.root: MemoryRoot | None = None
        self._owner = owner
        self._stored = stored
        self._segment = segment

    @property
    def keys_at_once(self) -> int:
        return self._owner.keys_at_once

    async def open(self) -> MemoryRoot:
        while self.root is None:
            root = self._stored.root
            await self._owner.read()
            if root is self._stored.root:
                self.root = root
        return self.root

    def lookup_nowait(self, keys: bytes) -> array[int] | None:
        root = self.root
        if root is None or (root.tree and self._owner.is_cold):
            return None
        return array("q", [root.tree.get(key, INT64_MIN) for key in self._split(keys)])

    async def lookup(self, keys: bytes) -> array[int]:
        root = await self.open()
        await self._owner.read()
        return array("q", [root.tree.get(key, INT64_MIN) for key in self._split(keys)])

    async def read_range(self, first: bytes, last: bytes, count_max: int) -> MemoryRange:
        root = await self.open()
        await self._owner.read()
        keys = sorted(key for key in root.tree if first <= key <= last)[:count_max]
        return MemoryRange(b"".join(keys), array("q", [root.tree[key] for key in keys]))

    async def update(
        self, keys: bytes, values: array[int], note: bytes | Callable[[array[int]], bytes] = b""
    ) -> array[int]:
        names = self._split(keys)
        assert all(a < b for a, b in pairwise(names))
        assert len(names) == len(values) <= max(1, self.keys_at_once)
        root = await self.open()
        if self._segment.deleted:
            raise NoSuchSegmentError(self._segment.name)

        before = array("q", [root.tree.get(key, INT64_MIN) for key in names])
        noted = note(before) if callable(note) else note

        def write() -> None:
            assert self._stored.root is root, "two write at once"
            tree = dict(root.tree)
            for key, value in zip(names, values, strict=True):
                if value == INT64_MIN:
                    tree.pop(key, None)
                else:
                    tree[key] = value
            self._stored.root = MemoryRoot(tree, noted)

        try:
            await self._owner.write(write)
        except BaseException:
            self.root = None
            raise
        self.root = self._stored.root
        return before

    def _split(self, keys: bytes) -> list[bytes]:
        assert len(keys) % self.key_bytes == 0
        return [keys[at : at + self.key_bytes] for at in range(0, len(keys), self.key_bytes)]


class MemoryIndexes:
    """The ``TableIndexes`` of one container; ``stored_of`` returns what storage has for a segment."""

    def __init__(self, stored_of: Callable[[SegmentState], StoredIndex]) -> None:
        self.is_cold = False
        self.keys_at_once = 1000
        self.hold_writes: asyncio.Event | None = None
        self.hold_reads: asyncio.Event | None = None
        self.fail_next: HeadraceError | None = None
        """Raised by the next write."""
        self.fails_late = False
        """Whether that write happens all the same."""
        self.fail_reads: HeadraceError | None = None
        """Raised by every read while it is set."""
        self.is_offline = False
        self.writes = 0
        self._stored_of = stored_of
        self._indexes: dict[int, MemoryIndex] = {}

    def get(self, segment: SegmentState, key_bytes: int = 16) -> MemoryIndex:
        index = self._indexes.get(id(segment))
        if index is None or index._segment is not segment:
            index = MemoryIndex(self, self._stored_of(segment), key_bytes, segment)
            self._indexes[id(segment)] = index
        return index

    async def read(self) -> None:
        if self.hold_reads is not None:
            await self.hold_reads.wait()
        await asyncio.sleep(0)
        self._check_online()
        if self.fail_reads is not None:
            raise self.fail_reads

    async def write(self, apply: Callable[[], None]) -> None:
        if self.hold_writes is not None:
            await self.hold_writes.wait()
        await asyncio.sleep(0)
        self._check_online()
        error, self.fail_next = self.fail_next, None
        if error is None or self.fails_late:
            apply()
            self.writes += 1
        if error is not None:
            raise error
        await asyncio.sleep(0)
        self._check_online()

    def _check_online(self) -> None:
        if self.is_offline:
            raise ContainerOfflineError("crashed")
