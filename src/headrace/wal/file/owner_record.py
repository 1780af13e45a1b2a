"""Ownership of a log's directory: which process may acknowledge, decided by one small file.

Taking over publishes a higher container epoch in the slot of ``owner`` that is not in force, durably, under
the file's advisory lock, so that two openers never choose the same container epoch. The lock is held for
moments only (this one, and while an owner truncates or recycles): an owner that stalls elsewhere does not
prevent a successor. A lock that is taken proves nothing about the ownership of the log: an opener waits
(``owner_wait``).

An owner is fenced as soon as the *other* slot differs from what it was when the owner took over. That is one
read of 64 bytes, made after a write is durable and before it is acknowledged. ``docs/formats/wal-owner.md``
argues why nothing acknowledged is lost and nothing is acknowledged too late.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from headrace.errors import DataCorruptionError, DirectoryLockedError, FencedOutError
from headrace.limits import KIB
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.runtime.filesystem import Filesystem
from headrace.wal.file.owner_format import (
    NEWEST_SLOT_COUNT,
    NEWEST_SLOTS_AT,
    OWNER_RECORD_BYTES,
    SLOT_BYTES,
    SLOT_COUNT,
    TOKEN_BYTES,
    NewestFile,
    OwnerRecord,
    choose_newest_slot,
    decode_owner,
    encode_newest,
    encode_owner,
    find_named,
)
from headrace.wal.file.segment_format import LOG_ID_BYTES, format_name, parse_name

T = TypeVar("T")

OWNER_FILE: Final = "owner"

#: With less than this a new owner could publish its container epoch but not make its first file.
_FREE_BYTES_MIN: Final = 64 * KIB


class OwnerFile:
    """The owner file of one log, open for as long as its owner works. All methods block briefly."""

    def __init__(self, directory: str, filesystem: Filesystem) -> None:
        self._directory = directory
        self._path = f"{directory}/{OWNER_FILE}"
        self._filesystem = filesystem
        self._fd = -1
        self._other_slot_at = 0
        self._other_slot = b""
        self._log_id = b""
        self._damaged_names: list[int] = []
        """Slots of newest files that cannot be read, until this owner has named one."""
        self._names_written = 0
        self.named: list[NewestFile] = []
        """The newest file of the log when it was taken and the one before it; empty if that is not known."""

    def take(self, clock: Clock, entropy: Entropy) -> OwnerRecord:
        """Publish the next container epoch durably and return the record.

        Raises:
            DirectoryLockedError: the lock is taken; nothing was published.
            DataCorruptionError: the record in force is damaged, or files that it names are missing.
            OSError: nothing was published, or it is unknown; try again.
        """
        fs = self._filesystem
        self._make_directory()
        if fs.free_bytes(self._directory) < _FREE_BYTES_MIN:
            raise OSError(errno.ENOSPC, "too little space to take over the log")
        self.close()
        self._fd = fs.open(self._path, os.O_RDWR | os.O_CREAT)
        return self._run_locked(lambda: self._publish(clock, entropy))

    def run_owned(self, action: Callable[[], T]) -> T:
        """Run ``action`` while this owner is the newest and none can take over.

        Whatever a successor reads before it starts is changed only in here, by the newest owner; names of
        newest files are the exception (:meth:`note_newest`). So nothing changes while it reads, and nothing
        that it has read changes its meaning afterwards.

        Raises:
            FencedOutError: a newer owner has taken the log; ``action`` was not run.
            DirectoryLockedError: the lock is taken: by an opener that is about to take the log, or by an
                owner that was fenced and does not know it yet. ``action`` was not run.
        """

        def act() -> T:
            self._check_held()
            return action()

        self._check_held()  # a fenced owner learns it without waiting, and blocks no opener
        return self._run_locked(act)

    def note_newest(self, container_epoch: int, number: int) -> None:
        """Promise, durably, that this file is there: it is made, and nothing older has been removed for it.

        Needs no lock, so that a process that stalls in here blocks no successor. What is written late lies
        where the successor writes nothing, and ranks below whatever that names.

        Raises:
            FencedOutError: a newer owner has taken the log; nothing was promised.
        """
        self._check_held()
        slot = choose_newest_slot(container_epoch, self._names_written)
        self._write(encode_newest(NewestFile(self._log_id, container_epoch, number)), _newest_at(slot))
        for damaged in self._damaged_names:
            if damaged != slot:
                self._write(bytes(SLOT_BYTES), _newest_at(damaged))
        self._filesystem.fdatasync(self._fd)
        self._damaged_names = []
        self._names_written += 1  # only now: a name that failed is written to the same slot again

    def _run_locked(self, action: Callable[[], T]) -> T:
        """Run ``action`` under the lock, or raise ``DirectoryLockedError`` if it is taken."""
        fs = self._filesystem
        lock = fs.open(self._path, os.O_RDWR)
        try:
            if not fs.lock(lock):
                raise DirectoryLockedError(
                    self._directory, "a process that takes the log or removes files of it"
                )
            return action()
        finally:
            fs.close(lock)

    def _check_held(self) -> None:
        if not self.still_held():
            raise FencedOutError("a newer owner has taken the log")

    def still_held(self) -> bool:
        """Say whether no newer owner exists. One short read, in any thread."""
        seen = bytearray(OWNER_RECORD_BYTES)
        self._filesystem.pread_into(self._fd, memoryview(seen), self._other_slot_at)
        return seen == self._other_slot

    def close(self) -> None:
        """Close the file. The epoch stays in force until a successor takes over."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._filesystem.close(fd)

    def _make_directory(self) -> None:
        """Make the directory, durable with all its parents before anything in it is.

        Any of them may have been made a moment ago by a process that ended before it synced.
        """
        fs = self._filesystem
        if fs.exists(self._path):
            return
        fs.mkdir(self._directory)
        path = self._directory
        while (above := os.path.dirname(path) or ".") != path:  # noqa: PTH120 - paths are str here
            with contextlib.suppress(PermissionError):  # then it was not made by a server
                fs.fsync_directory(above)
            path = above

    def _publish(self, clock: Clock, entropy: Entropy) -> OwnerRecord:
        fs = self._filesystem
        slots = self._read_slots(0, SLOT_COUNT)
        current, slot = self._find_current(slots)
        # Before the names of the files: the former owner may be naming a file that it has just made.
        self.named, self._damaged_names = find_named(self._read_slots(NEWEST_SLOTS_AT, NEWEST_SLOT_COUNT))
        names = self._filesystem.listdir(self._directory)
        files_epoch = max((parsed[1] for name in names if (parsed := parse_name(name))), default=0)
        # What the record is about to promise must be durable first: an owner that died between making a file
        # and syncing the directory leaves a name that a power failure could still remove.
        self._filesystem.fsync_directory(self._directory)
        if current is None and self.named:
            raise DataCorruptionError("no readable owner record", path=self._path, offset=0)
        problem = missing_file(self.named, names)
        if problem:
            raise DataCorruptionError(problem, path=self._directory)
        self._check_files(current, slot, files_epoch)
        if current is None:
            log_id, container_epoch = entropy.token(LOG_ID_BYTES), 1
            self._write(bytes(_newest_at(NEWEST_SLOT_COUNT)), 0)
            slots = [bytes(OWNER_RECORD_BYTES)] * SLOT_COUNT
        else:
            log_id, container_epoch = current.log_id, current.epoch + 1
            # A sync of it may have failed: then the disk has what was there before, which is read once the
            # system forgets the page. The owner before it would take the log to be its own again.
            self._write(slots[slot], slot * SLOT_BYTES)
        record = OwnerRecord(log_id, container_epoch, files_epoch, clock.now_ms(), entropy.token(TOKEN_BYTES))
        self._write(encode_owner(record), (1 - slot) * SLOT_BYTES)
        fs.fsync(self._fd)
        fs.fsync_directory(self._directory)
        self._other_slot_at = slot * SLOT_BYTES
        self._other_slot = slots[slot]
        self._log_id = log_id
        return record

    def _find_current(self, slots: list[bytes]) -> tuple[OwnerRecord | None, int]:
        """Return the record in force and its slot; (None, 1) if there is none."""
        best: tuple[OwnerRecord | None, int] = (None, 1)
        for slot, data in enumerate(slots):
            record = decode_owner(memoryview(data))
            if record is not None and (best[0] is None or record.epoch > best[0].epoch):
                best = (record, slot)
        return best

    def _check_files(self, current: OwnerRecord | None, slot: int, files_epoch: int) -> None:
        """Refuse a record and files that cannot belong together.

        A record is durable before the first file of its container epoch is made, and an owner's first file is
        durable before its ``open`` ends and older files are removed.
        """
        if current is None:
            if files_epoch > 0:
                raise DataCorruptionError("no readable owner record", path=self._path, offset=0)
        elif current.epoch < files_epoch:
            raise DataCorruptionError(
                f"the owner record says container epoch {current.epoch}, but files of {files_epoch} exist",
                path=self._path,
                offset=(1 - slot) * SLOT_BYTES,
            )
        elif current.files_epoch > files_epoch:
            message = f"log files of container epoch {current.files_epoch} are missing"
            raise DataCorruptionError(message, path=self._directory)

    def _read_slots(self, start: int, count: int) -> list[bytes]:
        slots = []
        for slot in range(count):
            data = bytearray(OWNER_RECORD_BYTES)
            self._filesystem.pread_into(self._fd, memoryview(data), start + slot * SLOT_BYTES)
            slots.append(bytes(data))
        return slots

    def _write(self, data: bytes, offset: int) -> None:
        if self._filesystem.pwrite(self._fd, data, offset) != len(data):
            raise OSError(errno.ENOSPC, "short write of the owner record")


def _newest_at(slot: int) -> int:
    return NEWEST_SLOTS_AT + slot * SLOT_BYTES


def missing_file(named: Sequence[NewestFile], names: Iterable[str]) -> str:
    """Say which file of the log is lost whose loss nothing else would show; empty if none is.

    The newest file is known by name: it holds the end of the log, and no other file points to it. It may be
    gone only once an owner of a newer container epoch has made one of its own. (The one before it may be gone
    as well if the newest is in use: recovery, which reads it, checks that.)
    """
    if not named:
        return ""
    newest = named[0]
    found = [parsed for name in names if (parsed := parse_name(name))]
    if (newest.number, newest.epoch) in found or any(epoch > newest.epoch for _, epoch in found):
        return ""
    return f"the newest log file {format_name(newest.number, newest.epoch)} is missing"
