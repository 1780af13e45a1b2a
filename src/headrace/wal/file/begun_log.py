"""Begins a log whose first owner has a high container epoch, for a system that is rebuilt."""

from __future__ import annotations

import os

from headrace.errors import WalWriteError
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.runtime.filesystem import Filesystem
from headrace.wal.file.owner_format import TOKEN_BYTES, OwnerRecord, encode_owner
from headrace.wal.file.owner_record import OWNER_FILE
from headrace.wal.file.segment_format import LOG_ID_BYTES


def begin_log(
    directory: str, files: Filesystem, container_epoch: int, clock: Clock, entropy: Entropy
) -> None:
    """Make an empty log in an existing, empty directory; its first owner has ``container_epoch``. Durable.

    Raises:
        OSError: it could not be written.
        WalWriteError: not all of it was.
    """
    record = OwnerRecord(
        entropy.token(LOG_ID_BYTES), container_epoch - 1, 0, clock.now_ms(), entropy.token(TOKEN_BYTES)
    )
    descriptor = files.open(f"{directory}/{OWNER_FILE}", os.O_WRONLY | os.O_CREAT)
    try:
        data = encode_owner(record)
        if files.pwrite(descriptor, data, 0) != len(data):
            raise WalWriteError(f"short write of the owner record in {directory}")
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    files.fsync_directory(directory)
