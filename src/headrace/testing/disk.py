"""A disk in memory that does to a program everything a real one does, when a test says so or a seed decides.

Fault model:

* **Power loss** between any two calls, or within a durable write. What was synced stays; of the rest
nothing, some
  sectors or everything stays (``Survival``). A directory entry - a new, renamed or removed name - is lost
  unless its directory was synced, even if the file's bytes were. A durable write that is interrupted is
  torn: the first few of its sectors or any of them are there.
* **A killed process** loses nothing that it had written; its descriptors are closed and its locks are free.
* **Errors** on demand: EIO, or any other, for the n-th call of an operation on a path. A sync of a file that
  fails has lost the changes: a second sync succeeds and does not bring them back. Each other descriptor that
  was open is notified once, by its next sync or synchronous write. One of a directory has lost nothing.
* **No space**: writes beyond ``capacity_bytes`` are cut short, then refused with ENOSPC.
* **Rot**: a bit flips.
* **Slowness**: each call costs virtual time that the simulated threads wait out.

Why a program must survive exactly this: POSIX allows it, and kernels, drives and operators do it. Not
modelled: a drive that lies about a sync, one that loses what it once had (but for flipped bits), renames
across directories (refused with EXDEV).

Every durable write - a write through a descriptor opened ``O_DSYNC``, an ``fdatasync``, ``fsync`` or
``fsync_directory`` - has a number, from 1, so that a test can lose power before, within or after each of
them.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headrace.limits import GIB
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.disk_files import SimulatedDirectory, SimulatedFile, Survival, write_some_sectors
from headrace.testing.failures import PowerLossError
from headrace.testing.trace import Trace


class Moment(Enum):
    """When, with respect to a durable write, the power is lost."""

    BEFORE = "before"
    WITHIN = "within"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class DiskConfig:
    """What a disk is like when nothing is broken."""

    capacity_bytes: int = 4 * GIB
    direct: bool = True
    """Whether ``O_DIRECT`` is understood; if not, opening with it fails with EINVAL, as on tmpfs."""

    alignment_bytes: int = 512
    """What ``O_DIRECT`` wants of address, offset and length."""

    survival: Survival | None = None
    """What a power loss leaves of unsynced changes; None lets the seed decide each time."""

    call_seconds: float = 20e-6
    sync_seconds: float = 200e-6
    second_per_byte: float = 1 / 500e6


@dataclass(slots=True)
class DiskFault:
    """An error that calls meet: after ``skip`` matching ones, ``count`` of them fail."""

    operations: frozenset[str]
    """Names of ``Filesystem`` methods."""

    error: int
    """An ``errno``."""

    path: str = ""
    """What the path must contain."""

    skip: int = 0
    count: int = 1
    met: int = 0
    """How often it has struck."""

    def strikes(self, operation: str, path: str) -> bool:
        """Say whether this call fails, and count it."""
        if operation not in self.operations or self.path not in path:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.met >= self.count:
            return False
        self.met += 1
        return True


@dataclass(slots=True)
class DiskStatistics:
    """Counts since the disk was made."""

    durable_writes: int = 0
    bytes_written: int = 0
    power_losses: int = 0
    faults_met: int = 0
    calls: dict[str, int] = field(default_factory=dict)


ROOT: Final = "/"


class SimulatedDisk:
    """The disk of one machine. Programs reach it through ``SimulatedFilesystem``, one per process."""

    def __init__(
        self,
        entropy: SeededEntropy,
        config: DiskConfig | None = None,
        *,
        name: str = "disk",
        trace: Trace | None = None,
    ) -> None:
        self.name = name
        self.config = DiskConfig() if config is None else config
        self.powered = True
        self.slowness = 1.0
        """Factor on the cost of every call."""
        self.root = SimulatedDirectory()
        self._entropy = entropy
        self._trace = trace
        self._faults: list[DiskFault] = []
        self._planned: tuple[int, Moment] | None = None
        self._on_power_loss: list[Callable[[], None]] = []
        self._statistics = DiskStatistics()
        self._cost_s = 0.0
        self._used_bytes = 0

    # ---- what a test does to it

    def plan_power_loss(self, durable_write: int, moment: Moment) -> None:
        """Lose power at the durable write of this number, counted from 1 since the disk was made."""
        assert durable_write > self._statistics.durable_writes
        self._planned = (durable_write, moment)

    def lose_power(self) -> None:
        """Lose power now. Programs learn nothing more; ``restore_power`` shows what is left."""
        self.powered = False
        self._planned = None
        self._statistics.power_losses += 1
        self._note("power", state="lost")
        for callback in self._on_power_loss:
            callback()

    def restore_power(self) -> None:
        """Restore power, with what the power loss left."""
        assert not self.powered
        survival = self.config.survival
        if survival is None:
            survival = list(Survival)[self._entropy.randbelow(len(Survival))]
        self.root.lose_power(survival, self._entropy)
        self._used_bytes = sum(len(file.content) for _, file in self.files())
        self.powered = True
        self._note("power", state="restored", survival=survival.value)

    def on_power_loss(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called at every power loss, before the call that meets it ends."""
        self._on_power_loss.append(callback)

    def fail(
        self, *operations: str, error: int = errno.EIO, path: str = "", skip: int = 0, count: int = 1
    ) -> DiskFault:
        """Let ``count`` calls of these operations fail, after ``skip`` that do not."""
        fault = DiskFault(frozenset(operations), error, path, skip, count)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Take back every planned error, and a planned loss of power."""
        self._faults.clear()
        self._planned = None

    def flip_bit(self, path: str, offset: int, bit: int = 0) -> None:
        """Change one bit of a file."""
        self.find_file(path).flip_bit(offset, bit)
        self._note("flip", path=path, offset=offset, bit=bit)

    def files(self) -> Iterator[tuple[str, SimulatedFile]]:
        """Yield every file that has a name, with its path, in order."""
        yield from _walk("", self.root)

    def find_file(self, path: str) -> SimulatedFile:
        """Return the file at ``path``.

        Raises:
            OSError: there is none.
        """
        entry = self.find(path)
        if not isinstance(entry, SimulatedFile):
            raise _error(errno.EISDIR, path)
        return entry

    def find(self, path: str) -> SimulatedFile | SimulatedDirectory:
        """Return what is at ``path``.

        Raises:
            OSError: there is nothing.
        """
        entry: SimulatedFile | SimulatedDirectory = self.root
        for part in parts_of(path):
            if not isinstance(entry, SimulatedDirectory):
                raise _error(errno.ENOTDIR, path)
            if part not in entry.entries:
                raise _error(errno.ENOENT, path)
            entry = entry.entries[part]
        return entry

    def find_directory(self, path: str) -> SimulatedDirectory:
        """Return the directory at ``path``.

        Raises:
            OSError: there is none.
        """
        entry = self.find(path)
        if not isinstance(entry, SimulatedDirectory):
            raise _error(errno.ENOTDIR, path)
        return entry

    # ---- what the file system does with it

    def begin(self, operation: str, path: str, **fields: object) -> None:
        """Account for a call and apply planned faults to it.

        Raises:
            PowerLossError: there is no power.
            OSError: a planned error.
        """
        if not self.powered:
            raise PowerLossError(self.name)
        calls = self._statistics.calls
        calls[operation] = calls.get(operation, 0) + 1
        self._cost_s += self.config.call_seconds * self.slowness
        self._note(operation, path=path, **fields)
        for fault in self._faults:
            if fault.strikes(operation, path):
                self._statistics.faults_met += 1
                raise _error(fault.error, path)

    def change_durably(self, change: Callable[[], None], tear: Callable[[], None]) -> None:
        """Perform one durable write, or lose power at it; ``tear`` performs the part that an interruption
        leaves.

        Raises:
            PowerLossError: the planned power loss was at this write.
        """
        self._statistics.durable_writes += 1
        self._cost_s += self.config.sync_seconds * self.slowness
        moment = None
        if self._planned is not None and self._planned[0] == self._statistics.durable_writes:
            moment = self._planned[1]
        if moment is not None and moment is not Moment.AFTER:
            if moment is Moment.WITHIN:
                tear()
            self._cut(moment)
        change()
        if moment is Moment.AFTER:
            self._cut(moment)

    def tear_write(self, file: SimulatedFile, offset: int, data: bytes) -> None:
        """Leave what an interrupted durable write leaves."""
        write_some_sectors(file.durable, offset, data, self._entropy)

    def tear_sync(self, entry: SimulatedFile | SimulatedDirectory) -> None:
        """Leave what an interrupted sync leaves."""
        entry.sync_partly(self._entropy)

    def take_space(self, bytes_wanted: int) -> int:
        """Reserve space for a file that grows and return how much there was."""
        granted = max(0, min(bytes_wanted, self.config.capacity_bytes - self._used_bytes))
        self._used_bytes += granted
        return granted

    def give_space(self, count: int) -> None:
        """Take back the space of a file that shrinks or is removed."""
        self._used_bytes -= count

    @property
    def free_bytes(self) -> int:
        return self.config.capacity_bytes - self._used_bytes

    def count_bytes(self, count: int) -> None:
        """Account for bytes that move."""
        self._statistics.bytes_written += count
        self._cost_s += count * self.config.second_per_byte * self.slowness

    def take_cost_s(self) -> float:
        """Return the virtual seconds that the calls since the last question would have taken."""
        cost_s, self._cost_s = self._cost_s, 0.0
        return cost_s

    def statistics(self) -> DiskStatistics:
        return self._statistics

    def check(self) -> None:
        """Assert the invariants of everything on the disk."""
        self.root.check()

    def _cut(self, moment: Moment) -> None:
        self._note("cut", durable_write=self._statistics.durable_writes, moment=moment.value)
        self.lose_power()
        raise PowerLossError(self.name)

    def _note(self, event: str, **fields: object) -> None:
        if self._trace is not None:
            self._trace.add(self.name, event, **fields)


def parts_of(path: str) -> list[str]:
    """Return the names along a path; relative paths start at the root."""
    normal = posixpath.normpath(posixpath.join(ROOT, path))
    return [part for part in normal.split("/") if part]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _walk(path: str, directory: SimulatedDirectory) -> Iterator[tuple[str, SimulatedFile]]:
    for name in sorted(directory.entries):
        entry = directory.entries[name]
        if isinstance(entry, SimulatedDirectory):
            yield from _walk(f"{path}/{name}", entry)
        else:
            yield f"{path}/{name}", entry
