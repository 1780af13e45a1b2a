"""Ownership of a log's directory: who may acknowledge, decided by one small file.

Taking over publishes a higher epoch in the slot of ``owner`` that is not in force, durably, under the
file's advisory lock, so that two openers never choose the same epoch. The lock is held for that moment
only: an owner that hangs never keeps a successor out.

An owner is fenced as soon as the *other* slot differs from what it was when the owner took over. That is one
read of 64 bytes, made after a write is durable and before it is acknowledged. ``docs/formats/wal-owner.md``
argues why nothing acknowledged is lost and nothing is acknowledged too late.
"""

from __future__ import annotations

import os
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.runtime.filesystem import Filesystem
from headrace.wal.file.owner_format import (
    OWNER_RECORD_BYTES,
    SLOT_BYTES,
    SLOT_COUNT,
    OwnerRecord,
    decode_owner,
    encode_owner,
)
from headrace.wal.file.segment_format import LOG_ID_BYTES, parse_name

OWNER_FILE: Final = "owner"


class OwnerFile:
    """The owner file of one log, open for as long as its holder works. All methods block briefly."""

    def __init__(self, directory: str, filesystem: Filesystem) -> None:
        self._directory = directory
        self._path = f"{directory}/{OWNER_FILE}"
        self._filesystem = filesystem
        self._fd = -1
        self._other_slot_at = 0
        self._other_slot = b""
        self._seen = memoryview(bytearray(OWNER_RECORD_BYTES))

    def try_take(self, clock: Clock, entropy: Entropy) -> OwnerRecord | None:
        """Publish the next epoch durably and return the record, or None while another opener is at it.

        Raises:
            DataCorruptionError: the record in force is damaged.
            OSError: nothing was published, or it is unknown; ``close`` and try again.
        """
        fs = self._filesystem
        self.close()
        fs.mkdir(self._directory)
        fs.fsync_directory(os.path.dirname(self._directory) or ".")  # noqa: PTH120 - str paths throughout
        lock = fs.open(self._path, os.O_RDWR | os.O_CREAT)
        try:
            if not fs.lock(lock):
                return None
            return self._publish(clock, entropy)
        finally:
            fs.close(lock)

    def _publish(self, clock: Clock, entropy: Entropy) -> OwnerRecord:
        fs = self._filesystem
        self._fd = fs.open(self._path, os.O_RDWR)
        slots = self._read_slots()
        current, slot = self._find_current(slots)
        if current is None:
            log_id = entropy.token(LOG_ID_BYTES)
            epoch = 1
        else:
            log_id, epoch = current.log_id, current.epoch + 1
        record = OwnerRecord(log_id, epoch, clock.now_ms(), entropy.token(16))
        if current is None:
            self._write(b"\0" * (SLOT_BYTES * SLOT_COUNT), 0)
            slots = [bytes(OWNER_RECORD_BYTES)] * SLOT_COUNT
        target = 1 - slot
        self._write(encode_owner(record), target * SLOT_BYTES)
        fs.fsync(self._fd)
        fs.fsync_directory(self._directory)
        self._other_slot_at = slot * SLOT_BYTES
        self._other_slot = slots[slot]
        return record

    def _find_current(self, slots: list[bytes]) -> tuple[OwnerRecord | None, int]:
        """Return the record in force and its slot; (None, 1) for a log that nobody ever opened to the end."""
        found = [
            (record, slot) for slot, data in enumerate(slots) if (record := decode_owner(memoryview(data)))
        ]
        names = [parsed for name in self._filesystem.listdir(self._directory) if (parsed := parse_name(name))]
        epoch_of_files = max((epoch for _, epoch in names), default=0)
        if not found:
            if epoch_of_files:  # files are made after the first record is durable, so there was one
                raise DataCorruptionError("no readable owner record", path=self._path)
            return None, 1
        current, slot = max(found, key=lambda pair: pair[0].epoch)
        if current.epoch < epoch_of_files:
            raise DataCorruptionError(
                f"the owner record says epoch {current.epoch}, but files of epoch {epoch_of_files} exist",
                path=self._path,
                offset=(1 - slot) * SLOT_BYTES,
            )
        return current, slot

    def still_held(self) -> bool:
        """Say whether no newer owner has begun to exist. One short read."""
        count = self._filesystem.pread_into(self._fd, self._seen, self._other_slot_at)
        return count == OWNER_RECORD_BYTES and self._seen == self._other_slot

    def close(self) -> None:
        """Let go of the file. The epoch stays in force until somebody else takes over."""
        if self._fd >= 0:
            self._filesystem.close(self._fd)
            self._fd = -1

    def _read_slots(self) -> list[bytes]:
        slots = []
        for slot in range(SLOT_COUNT):
            data = bytearray(OWNER_RECORD_BYTES)
            self._filesystem.pread_into(self._fd, memoryview(data), slot * SLOT_BYTES)
            slots.append(bytes(data))
        return slots

    def _write(self, data: bytes, offset: int) -> None:
        if self._filesystem.pwrite(self._fd, data, offset) != len(data):
            raise OSError(28, "short write of the owner record")
