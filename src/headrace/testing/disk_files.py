"""What lies on the simulated disk: for each file and directory, what programs see and what a power loss
leaves.

Between two syncs a file collects its unsynced changes, and so does a directory. A power loss spares what was
synced and, of the rest, what its ``Survival`` says.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from headrace.runtime.entropy import SeededEntropy

#: The disk writes this many bytes as a whole or not at all.
SECTOR_BYTES: Final = 512


class Survival(Enum):
    """What a power loss leaves of changes that were not synced."""

    NONE = "none"
    SOME = "some"
    """Each sector of a write and each change of a length by itself; of a directory, the first few changes."""

    ALL = "all"


class SimulatedFile:
    """A file: its content, the durable part of it, and the unsynced changes in between, in order."""

    __slots__ = ("changes", "content", "durable", "locked_by", "losses", "sync_failed")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.changes: list[tuple[int, bytes | None]] = []
        """Unsynced: ``(offset, data)`` is a write, ``(length, None)`` sets the length."""
        self.locked_by: dict[object, bool] = {}
        """Who has its lock, and whether to share it."""
        self.losses = 0
        """How often a sync has failed and lost changes: each descriptor reports each once."""
        self.sync_failed = False
        """Set when unsynced changes were lost: programs then see what the disk will never hold."""

    # ---- what programs do

    def write(self, offset: int, data: bytes) -> None:
        """Write without syncing."""
        apply_change(self.content, offset, data)
        self.changes.append((offset, data))

    def write_durably(self, offset: int, data: bytes) -> None:
        """Write and sync that range, as a descriptor opened ``O_DSYNC`` does."""
        apply_change(self.content, offset, data)
        if any(changed is None for _, changed in self.changes):
            self.sync()  # the new length is metadata that comes along
        else:
            self._forget_changes_in(offset, offset + len(data))
        apply_change(self.durable, offset, data)

    def set_length(self, length: int) -> None:
        apply_change(self.content, length, None)
        self.changes.append((length, None))

    def sync(self) -> None:
        """Make every change so far durable."""
        for offset, data in self.changes:
            apply_change(self.durable, offset, data)
        self.changes.clear()

    def lose_changes(self) -> None:
        """Do what a kernel does when a sync fails: call pages clean though they never reached the disk."""
        if self.changes:
            self.sync_failed = True
            self.losses += 1
        self.changes.clear()

    def sync_partly(self, entropy: SeededEntropy) -> None:
        """Leave what an interrupted sync leaves."""
        for offset, data in self.changes:
            if data is not None:
                write_some_sectors(self.durable, offset, data, entropy)
            elif entropy.randbelow(2):
                apply_change(self.durable, offset, None)

    # ---- what the world does

    def lose_power(self, survival: Survival, entropy: SeededEntropy) -> None:
        """Become what the disk holds after a power loss."""
        for offset, data in self.changes if survival is not Survival.NONE else ():
            if survival is Survival.ALL:
                apply_change(self.durable, offset, data)
            elif data is None:
                if entropy.randbelow(2):
                    apply_change(self.durable, offset, None)
            else:
                write_some_sectors(self.durable, offset, data, entropy)
        self.changes.clear()
        self.content = bytearray(self.durable)
        self.locked_by.clear()
        self.sync_failed = False

    def flip_bit(self, offset: int, bit: int) -> None:
        """Rot: one bit changes, in the cache and on the disk."""
        mask = 1 << bit
        self.content[offset] ^= mask
        if offset < len(self.durable):
            self.durable[offset] ^= mask
        for index, (start, data) in enumerate(self.changes):
            if data is not None and start <= offset < start + len(data):
                flipped = bytearray(data)
                flipped[offset - start] ^= mask
                self.changes[index] = (start, bytes(flipped))

    def check(self) -> None:
        """Assert that the unsynced changes are what stands between the durable bytes and the visible ones."""
        if self.sync_failed:
            return
        image = bytearray(self.durable)
        for offset, data in self.changes:
            apply_change(image, offset, data)
        assert image == self.content

    def _forget_changes_in(self, start: int, end: int) -> None:
        """Cut ``[start, end)`` out of unsynced writes: something newer is about to be durable there."""
        survivors: list[tuple[int, bytes | None]] = []
        for offset, data in self.changes:
            assert data is not None
            if offset < start:
                survivors.append((offset, data[: start - offset]))
            if offset + len(data) > end:
                cut = max(0, end - offset)
                survivors.append((offset + cut, data[cut:]))
        self.changes = survivors


class SimulatedDirectory:
    """A directory: its entries, the durable ones, and the unsynced changes in between, in order."""

    __slots__ = ("changes", "durable", "entries", "locked_by")

    def __init__(self) -> None:
        self.entries: dict[str, SimulatedFile | SimulatedDirectory] = {}
        self.durable: dict[str, SimulatedFile | SimulatedDirectory] = {}
        self.changes: list[dict[str, SimulatedFile | SimulatedDirectory | None]] = []
        """Unsynced: each is one atomic change of one or two names; None removes the name."""
        self.locked_by: dict[object, bool] = {}
        """Who has its lock, and whether to share it."""

    def change(self, names: dict[str, SimulatedFile | SimulatedDirectory | None]) -> None:
        """Set or remove names, atomically and not yet durably."""
        _apply_names(self.entries, names)
        self.changes.append(names)

    def sync(self) -> None:
        for names in self.changes:
            _apply_names(self.durable, names)
        self.changes.clear()

    def lose_changes(self) -> None:
        """Do nothing: names are in the file system's log, which tries again or fails for good."""

    def sync_partly(self, entropy: SeededEntropy) -> None:
        """Leave what an interrupted sync leaves: the first few changes."""
        count = entropy.randbelow(len(self.changes) + 1)
        for names in self.changes[:count]:
            _apply_names(self.durable, names)
        del self.changes[:count]

    def lose_power(self, survival: Survival, entropy: SeededEntropy) -> None:
        """Become what the disk holds after a power loss, with everything below."""
        count = len(self.changes) if survival is Survival.ALL else 0
        if survival is Survival.SOME:
            count = entropy.randbelow(len(self.changes) + 1)  # file systems log names in order
        for names in self.changes[:count]:
            _apply_names(self.durable, names)
        self.changes.clear()
        self.locked_by.clear()
        self.entries = dict(self.durable)
        for name in sorted(self.entries):
            self.entries[name].lose_power(survival, entropy)

    def check(self) -> None:
        """Assert the invariants of this directory and everything below."""
        image = dict(self.durable)
        for names in self.changes:
            _apply_names(image, names)
        assert image == self.entries
        for entry in self.entries.values():
            entry.check()


def apply_change(image: bytearray, offset: int, data: bytes | None) -> None:
    """Write ``data`` at ``offset``, or set the length to ``offset`` if there is none; gaps read as zeros."""
    if data is None:
        if offset <= len(image):
            del image[offset:]
        else:
            image.extend(bytes(offset - len(image)))
        return
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def sectors_of(offset: int, length: int) -> list[tuple[int, int]]:
    """Return the ranges ``[start, end)`` into which sector borders cut ``[offset, offset + length)``."""
    ranges = []
    start, end = offset, offset + length
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        ranges.append((start, stop))
        start = stop
    return ranges


def write_some_sectors(image: bytearray, offset: int, data: bytes, entropy: SeededEntropy) -> None:
    """Write part of ``data``: as likely as not the first few sectors, else any of them."""
    sectors = sectors_of(offset, len(data))
    if entropy.randbelow(2):
        sectors = sectors[: entropy.randbelow(len(sectors) + 1)]
    else:
        sectors = [sector for sector in sectors if entropy.randbelow(2)]
    for start, end in sectors:
        apply_change(image, start, data[start - offset : end - offset])


def _apply_names(
    entries: dict[str, SimulatedFile | SimulatedDirectory],
    names: dict[str, SimulatedFile | SimulatedDirectory | None],
) -> None:
    for name, entry in names.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry
