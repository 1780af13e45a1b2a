"""The logs of a system in a bucket: those of each container begin with its number."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Final

from headrace.errors import DataCorruptionError, StorageFullError, WalWriteError
from headrace.limits import MIB
from headrace.runtime.entropy import Entropy
from headrace.wal.blocking_look import look
from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.log_system import LogSystem
from headrace.wal.logs import LogFrame, look_steadily
from headrace.wal.objects.blocking_look import BlockingLook
from headrace.wal.objects.config import ObjectLogConfig
from headrace.wal.objects.living_log import LivingRecord, RecordChain
from headrace.wal.objects.log_objects import LogObjects
from headrace.wal.objects.looking_plan import SeenLog, is_log_begun, look_at_log, read_records
from headrace.wal.objects.object_calls import ObjectCalls
from headrace.wal.objects.object_format import Kind, ObjectHeader
from headrace.wal.objects.object_names import claim_name, containers_in, log_prefix, record_name
from headrace.wal.objects.object_wal import ObjectWal
from headrace.wal.objects.requests import list_names
from headrace.wal.objects.system_plan import claim_system, find_system
from headrace.wal.objects.truncation_plan import delete_garbage

_BATCH_RECORDS_MAX: Final = 16
_BATCH_BYTES_MAX: Final = 16 * MIB
"""Records that are read at the same time, before the first of them is handed on."""


class ObjectLogSnapshot:
    """A ``LogSnapshot`` of a log in a bucket."""

    def __init__(self, place: str, container: int, look: BlockingLook, seen: SeenLog) -> None:
        self.place = place
        self.problem = seen.problem
        self.epoch = seen.container_epoch
        self.first_address = None if seen.problem else seen.head.address
        self.next_address = None if seen.problem else seen.next_address
        self._container = container
        self._look = look
        self._seen = seen

    def frames(self) -> Iterator[LogFrame]:
        """See ``LogSnapshot.frames``. Some records are read at the same time."""
        chain = RecordChain(self._seen.head)
        for records in _batches(self._seen.records):
            found = self._look.run(read_records(self._container, records))
            for record, each in zip(records, found, strict=True):
                name = record_name(self._container, record.position)
                for address, payload in chain.frames_of(each, name):
                    index = address - each.header.address
                    offset = record.length - sum(map(len, each.frames[index:]))
                    yield LogFrame(name, offset, address, record.position.epoch, payload)
        if self.problem:
            raise DataCorruptionError(self.problem)


def _batches(records: list[LivingRecord]) -> Iterator[list[LivingRecord]]:
    batch: list[LivingRecord] = []
    batch_bytes = 0
    for record in records:
        is_full = len(batch) == _BATCH_RECORDS_MAX or batch_bytes + record.length > _BATCH_BYTES_MAX
        if batch and is_full:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(record)
        batch_bytes += record.length
    if batch:
        yield batch


class FoundObjectLog:
    """A ``FoundLog`` of ``container``."""

    def __init__(self, place: str, container: int, look: BlockingLook) -> None:
        self.place = place
        self._container = container
        self._look = look

    def is_begun(self) -> bool:
        """See ``FoundLog.is_begun``."""
        try:
            return self._look.run(is_log_begun(self._container))
        except DataCorruptionError:
            return True
        except WalWriteError as error:
            raise OSError(str(error)) from error

    def snapshot(self) -> ObjectLogSnapshot:
        """See ``FoundLog.snapshot``."""
        try:
            seen = look_steadily(lambda: self._look.run(look_at_log(self._container)))
        except WalWriteError as error:
            raise OSError(str(error)) from error
        if seen is None:
            raise DataCorruptionError("the log of this container is missing", path=self.place)
        return ObjectLogSnapshot(self.place, self._container, self._look, seen)


class FoundObjectLogs:
    """``OutsideLogs`` in the store that ``make_store`` makes, each time anew; ``place``: its URI.

    ``prove_store``: checks that it lets no object be overwritten.
    """

    def __init__(
        self,
        place: str,
        make_store: Callable[[], LogObjects],
        prove_store: Callable[[], Coroutine[None, None, None]] | None = None,
    ) -> None:
        self._place = place
        self._look = BlockingLook(make_store)
        self._prove_store = prove_store

    def numbers(self) -> list[int]:
        """See ``FoundLogs.numbers``."""
        try:
            return sorted(set(containers_in(self._look.run(list_names("")))))
        except WalWriteError as error:
            raise OSError(str(error)) from error

    def find_system(self) -> LogSystem | None:
        """See ``OutsideLogs.find_system``."""
        return self._look.run(find_system())

    def claim_system(self, system: LogSystem) -> LogSystem:
        """See ``OutsideLogs.claim_system``."""
        return self._look.run(claim_system(system))

    def prove(self) -> None:
        """See ``OutsideLogs.prove``."""
        if self._prove_store is not None:
            look(self._prove_store)

    def log(self, container: int) -> FoundObjectLog:
        return FoundObjectLog(f"{self._place}/{container}", container, self._look)


class ObjectLogs(FoundObjectLogs):
    """``Logs`` of one loop. Their store is made at its first use; whoever has them closes it."""

    def __init__(
        self,
        place: str,
        make_store: Callable[[], LogObjects],
        entropy: Entropy,
        config: WalConfig | None = None,
        objects: ObjectLogConfig | None = None,
        *,
        frames: FrameMemory | None = None,
    ) -> None:
        super().__init__(place, make_store)
        self._make_store = make_store
        self._entropy = entropy
        self._config = config
        self._objects = objects
        self._frames = frames
        self._opened: LogObjects | None = None

    @property
    def _store(self) -> LogObjects:
        if self._opened is None:
            self._opened = self._make_store()
        return self._opened

    def make_wal(self, container: int) -> Wal:
        return ObjectWal(
            self._store, container, self._entropy, self._config, self._objects, frames=self._frames
        )

    async def begin(self, container: int, container_epoch: int) -> None:
        header = ObjectHeader(Kind.START, container, container_epoch - 1)
        try:
            other = await ObjectCalls(self._store).create(claim_name(container, header.epoch), header)
        except StorageFullError as error:
            raise WalWriteError(str(error)) from error
        if other is not None:
            raise WalWriteError(f"there is a log in {self._place}/{container}: delete it first")

    async def delete(self, container: int) -> None:
        calls = ObjectCalls(self._store)
        try:
            names = sorted(await calls.list_lengths(log_prefix(container)), reverse=True)
            await calls.run(delete_garbage(names))  # what says that there is a log goes last
        except WalWriteError as error:
            raise OSError(str(error)) from error
        if names:
            raise OSError(f"{names[0]} of the log in {self._place}/{container} was not deleted")

    async def close(self) -> None:
        """Close the store, when all its logs are closed. Idempotent."""
        store, self._opened = self._opened, None
        if store is not None:
            await store.close()
