"""Copies the logs of a stopped system, wherever they are, into another place, and ends those it has copied.

Order: a log is taken, so that a server which still has it is fenced; its records are written into a new log,
whose container epochs go on above; that one is read back and compared. When all are copied, each former log
gets a last record that says where it goes on: its contract sees to it that this is written only if nobody has
taken the log meanwhile, and whoever takes it later meets that record and refuses. So at no moment a server
could go on with either. A copy that was cut off is repeated: what it has written is recognised, since it is
the beginning of the log that it was copied from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from headrace.errors import DataCorruptionError, FencedOutError, InvalidArgumentError, UnsupportedError
from headrace.repair.log_copy.contents import Contents
from headrace.repair.record_writer import RecordWriter
from headrace.runtime.clock import Clock
from headrace.segmentstore.durablelog.frame_format import encode_moved, find_moved
from headrace.storage.inspect_store import Run
from headrace.wal.contract import Wal
from headrace.wal.logs import Logs, LogSnapshot


@dataclass(slots=True)
class CopiedLog:
    """The log of one container in its new place."""

    container: int
    contents: Contents
    epoch: int
    """Container epoch of the copy; the next owner has a higher one."""


class LogCopy:
    """One copy of the logs in ``source`` to ``target``, which messages call ``place``; coroutines run on the
    loop of ``run``. ``on_progress`` is told the bytes that were copied.
    """

    def __init__(
        self,
        source: Logs,
        target: Logs,
        place: str,
        clock: Clock,
        run: Run,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._place = place
        self._clock = clock
        self._run = run
        self._on_progress = on_progress
        self._taken: dict[int, Wal] = {}
        self._bytes = 0

    def run(self, containers: Iterable[int]) -> list[CopiedLog]:
        """Copy the logs of these containers, compare them, and end the former ones.

        Raises:
            InvalidArgumentError: there is a log in the new place that is none of this copy, or the logs were
                moved to another one.
            UnsupportedError: the new place takes no record as large as one of these.
            FencedOutError: a server has taken one of the logs meanwhile; it goes on with it.
            DataCorruptionError: a log is damaged, or its copy is not the same.
            StorageFullError, WalWriteError, OSError: repeat it.
        """
        try:
            present = set(self._target.numbers())
            copied = [self._move(container, present) for container in containers]
            self._run(self._end_former())
            return copied
        finally:
            self._run(self._close())

    def _move(self, container: int, present: set[int]) -> CopiedLog:
        if container in present:
            found = self._target.log(container)
            if found.is_begun():
                copied = self._find_copied(container, found.snapshot())
                if copied is not None:
                    return copied
            self._run(self._target.delete(container))
        contents, former = self._run(self._copy(container))
        if former:
            self._run(self._target.delete(container))
            self._refuse_moved(container, former)
        snapshot = self._target.log(container).snapshot()
        written = _contents_of(snapshot)
        if written != contents:
            raise DataCorruptionError(
                f"the copy has {written}, and what was copied {contents}: nothing was moved",
                path=snapshot.place,
            )
        return CopiedLog(container, contents, snapshot.epoch)

    def _find_copied(self, container: int, there: LogSnapshot) -> CopiedLog | None:
        """Return the log in the new place, if the former one says that it goes on there; None if what is
        there is a beginning of the former one: of a copy that was cut off.
        """
        source = self._source.log(container).snapshot()
        former, is_part, frames = "", True, there.frames()
        for record in source.frames():
            former = find_moved(record.payload)
            if former:
                break
            ours = next(frames, None)
            is_part = is_part and (ours is None or ours.payload == record.payload)
        if former == self._place:
            return CopiedLog(container, _contents_of(there), there.epoch)
        self._refuse_moved(container, former)
        if not is_part or next(frames, None) is not None:
            raise InvalidArgumentError(
                f"{there.place} is a log already, and no part of the one in {source.place}: nothing was "
                "changed; name a place without logs"
            )
        return None

    def _refuse_moved(self, container: int, former: str) -> None:
        if former:
            raise InvalidArgumentError(
                f"the log of container {container} was moved to {former} before, and nothing was changed: "
                "copy it from there"
            )

    async def _copy(self, container: int) -> tuple[Contents, str]:
        """Return what was copied, and where the log went on before, if it did."""
        source = self._taken[container] = self._source.make_wal(container)
        await source.open()
        await self._target.begin(container, source.epoch + 1)
        target = self._target.make_wal(container)
        contents, former = Contents(), ""
        try:
            await target.open()
            writer = RecordWriter(target)
            async with aclosing(source.records()) as records:
                async for record in records:
                    former = find_moved(record.payload)
                    if former:
                        break
                    if len(record.payload) > target.frame_bytes_max:
                        raise UnsupportedError(
                            f"a record of {len(record.payload)} bytes of the log of container {container} is "
                            f"larger than the {target.frame_bytes_max} that {self._place} takes: nothing was "
                            "moved"
                        )
                    contents.add(record.payload)
                    await writer.write(record.payload)
                    self._bytes += len(record.payload)
                    self._on_progress(self._bytes)
            await writer.finish()
        finally:
            await target.close()
        return contents, former

    async def _end_former(self) -> None:
        for container, wal in self._taken.items():
            if await wal.is_fenced():
                raise self._fenced(container)
        end = encode_moved(self._place, self._clock.now_ms())
        for container, wal in self._taken.items():
            writer = RecordWriter(wal)
            try:
                await writer.write(end)
                await writer.finish()
            except FencedOutError as error:
                raise self._fenced(container) from error

    def _fenced(self, container: int) -> FencedOutError:
        return FencedOutError(
            f"a server has taken the log of container {container} while it was copied, and goes on with it: "
            "stop that server, and repeat the copy"
        )

    async def _close(self) -> None:
        for wal in self._taken.values():
            await wal.close()
        await self._source.close()
        await self._target.close()


def _contents_of(snapshot: LogSnapshot) -> Contents:
    contents = Contents()
    for frame in snapshot.frames():
        contents.add(frame.payload)
    return contents
