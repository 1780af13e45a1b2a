"""Makes the log of a container from the records of a storage checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.repair.record_writer import RecordWriter
from headrace.runtime.entropy import Entropy
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FRAME_HEADER, VERSION, WHOLE
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.storage.chunks.chunk_names import INCARNATION_CHARS
from headrace.storage.metadata.rows import INCARNATION_KEY, encode_incarnation_row
from headrace.wal.contract import Wal
from headrace.wal.logs import Logs


class RebuiltLog:
    """The log of a container, in place of one that may be there, with ``epoch`` for its first owner: this
    one.
    """

    def __init__(self, logs: Logs, container: int, entropy: Entropy, epoch: int) -> None:
        self._logs = logs
        self._container = container
        self._entropy = entropy
        self._epoch = epoch
        self._wal: Wal = logs.make_wal(container)
        self._reader = FrameReader()
        self._address = 0
        self._sequence = 0
        self._time_ms = 0

    async def open(self) -> None:
        """Raises: OSError, WalWriteError, StorageFullError."""
        await self._logs.delete(self._container)
        await self._logs.begin(self._container, self._epoch)
        await self._wal.open()
        assert self._wal.epoch == self._epoch

    async def write(self, records: Iterable[memoryview]) -> None:
        """Append records of the copied log. Raises: DataCorruptionError, WalWriteError, StorageFullError."""
        writer = RecordWriter(self._wal)
        for record in records:
            self._address += 1
            await writer.write(record)
            for view in self._reader.feed(self._address, record):
                self._sequence = codec.decode(view).sequence
            self._time_ms = self._reader.frame_time_ms
        await writer.finish()

    async def renew_incarnation(self) -> None:
        """Let the container name its chunks anew, as the last operation of the log.

        So no object that the lost end of the log may have named is ever taken for an orphan.
        """
        name = self._entropy.token(INCARNATION_CHARS // 2).hex()
        changes = {INCARNATION_KEY: encode_incarnation_row(name)}
        pieces = codec.encode(ops.StorageRows(self._sequence + 1, changes))
        size = sum(map(len, pieces))
        head = FRAME_HEADER.pack(VERSION, 0, 0, ENTRY_HEADER.size + size, self._time_ms)
        frame = b"".join((head, ENTRY_HEADER.pack(size, WHOLE), *pieces))
        writer = RecordWriter(self._wal)
        await writer.write(frame)
        await writer.finish()

    async def close(self) -> None:
        """Everything is durable; no owner has the log any more."""
        await self._wal.close()
