"""A machine with a simulated disk on which file logs are opened by processes that can be killed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.errors import ClosedError, FencedOutError, HeadraceError
from headrace.limits import KIB
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.disk import DiskConfig, SimulatedDisk
from headrace.testing.failures import ProcessGoneError
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.testing.loop import SimulatedLoop
from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal
from headrace.wal.file import FileWal
from headrace.wal.loop_writes import LoopWrites, LoopWritesConfig

T = TypeVar("T")

#: Five records to a file.
SMALL = WalConfig(
    frame_bytes_max=512,
    frames_max=6,
    segment_file_bytes=32 * KIB,
    zero_step_bytes=4 * KIB,
    zero_ahead_bytes=8 * KIB,
    spare_files_max=2,
)

DIRECTORY = "/data/log"


class MortalFilesystem(SimulatedFilesystem):
    """Ends with its process at a call of given number, before it has an effect."""

    def __init__(self, disk: SimulatedDisk, last_call: int) -> None:
        super().__init__(disk)
        self.calls = 0
        self.last_call = last_call
        self.on_death: Callable[[], None] = lambda: None

    def _begin(self, operation: str, path: str, **fields: object) -> None:
        self.calls += 1
        if self.calls == self.last_call:
            self.kill()
            self.on_death()
        super()._begin(operation, path, **fields)


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class Job:
    """Blocking work that was handed to a thread and has not been done."""

    def __init__(
        self, work: LoopWork, fn: Callable[..., Any], args: tuple[Any, ...], done: Callable[..., None]
    ):
        self.work = work
        self.fn = fn
        self.args = args
        self.done = done


class LoopWork:
    """Blocking work done on the loop, a random while after it was asked for and before it is answered."""

    def __init__(
        self, threads: int, machine: Machine, process: SimulatedFilesystem, entropy: SeededEntropy
    ) -> None:
        self.process = process
        self._machine = machine
        self._idle = threads
        self._entropy = entropy
        self._jobs: deque[Job] = deque()
        self._closed = False

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        future = asyncio.get_running_loop().create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.submit(fn, args, done)
        return await future

    def submit(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Callable[..., None]) -> None:
        if self._closed:
            raise ClosedError("closed")
        self._jobs.append(Job(self, fn, args, done))
        self._start()

    def _start(self) -> None:
        if self._idle and self._jobs:
            self._idle -= 1
            job = self._jobs.popleft()
            self._machine.jobs.append(job)
            self._later(self.perform, job)

    def perform(self, job: Job) -> None:
        """Do it, unless somebody did it earlier (see ``MeddledFilesystem``)."""
        if job not in self._machine.jobs:
            return
        self._machine.jobs.remove(job)
        result, error = None, None
        try:
            result = job.fn(*job.args)
        except ProcessGoneError:
            return  # nobody is there any more
        except BaseException as raised:
            error = raised
        self._later(self._deliver, job.done, result, error)

    def _deliver(self, done: Callable[..., None], result: Any, error: BaseException | None) -> None:
        self._idle += 1
        self._start()
        done(result, error)

    def _later(self, fn: Callable[..., None], *args: Any) -> None:
        # Now and then a thread, or its whole process, stands still.
        pace_s = self._machine.pace_s * (100 if self._entropy.randbelow(8) == 0 else 1)
        asyncio.get_running_loop().call_later(self._entropy.random() * pace_s, fn, *args)

    def close(self) -> None:
        self._closed = True

    async def wait_closed(self) -> None:
        assert not self._jobs


class LoopThreads:
    def __init__(self, machine: Machine, process: SimulatedFilesystem, entropy: SeededEntropy) -> None:
        self._machine = machine
        self._process = process
        self._entropy = entropy

    def pool(self, threads: int, name: str, *, queue_max: int = 1024) -> LoopWork:
        del queue_max
        return LoopWork(threads, self._machine, self._process, self._entropy.fork(name))


class MeddledFilesystem(SimulatedFilesystem):
    """Between two calls of one process, what other processes have in the air may happen."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.disk)
        self._machine = machine
        self._entropy = machine.entropy.fork(f"meddle-{len(machine.processes)}")

    def _begin(self, operation: str, path: str, **fields: object) -> None:
        if self._entropy.randbelow(6) == 0:
            others = [job for job in self._machine.jobs if job.work.process is not self]
            if others:
                job = others[self._entropy.randbelow(len(others))]
                job.work.perform(job)
        super()._begin(operation, path, **fields)


@dataclass
class History:
    """What a log was asked and what it answered, over all owners."""

    submitted: dict[int, bytes] = field(default_factory=dict)
    """By address, the last that was submitted there."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    truncation_asked: int = 0
    truncation_done: int = 0
    errors: list[Exception] = field(default_factory=list)

    def check(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Compare what a log holds with what may be expected of it."""
        found = dict(records)
        addresses = [address for address, _ in records]
        assert not addresses or addresses == list(range(addresses[0], addresses[-1] + 1))
        for address, content in self.acknowledged.items():
            if address >= self.truncation_asked:
                assert found.get(address) == content, f"record {address} was acknowledged"
            elif address in found:
                assert found[address] == content
        for address, content in found.items():
            assert self.submitted.get(address) == content, f"record {address} was never written"
            assert address >= self.truncation_done, f"record {address} was truncated"

    def adopt(self, records: Sequence[tuple[int, bytes]]) -> None:
        """What an owner found at its start stays from then on, acknowledged or not."""
        self.acknowledged.update(records)
        if records:
            last = records[-1][0]
            self.submitted = {a: c for a, c in self.submitted.items() if a <= last}


async def append_some(wal: Wal, history: History, contents: Sequence[bytes]) -> None:
    """Append with as many frames in flight as there are; returns when all are answered."""
    loop = asyncio.get_running_loop()
    changed = loop.create_future()
    answered = 0

    def done(frame: Any, error: Exception | None) -> None:
        nonlocal answered
        answered += 1
        content = bytes(frame.view[: frame.length])
        if error is None:
            assert frame.address not in history.acknowledged or history.acknowledged[frame.address] == content
            history.acknowledged[frame.address] = content
        else:
            history.errors.append(error)
        wal.release_frame(frame)
        if not changed.done():
            changed.set_result(None)

    for content in contents:
        while (frame := wal.acquire_frame()) is None:
            await changed
            changed = loop.create_future()
        frame.view[: len(content)] = content
        frame.length = len(content)
        try:
            wal.append(frame, done)
        finally:  # who dies within has written it, perhaps
            history.submitted[frame.address] = content
    while answered < len(contents):
        await changed
        changed = loop.create_future()


class Machine:
    """One disk, one loop, any number of processes after and beside each other."""

    def __init__(
        self,
        seed: int | str = 1,
        config: DiskConfig | None = None,
        wal: WalConfig = SMALL,
        *,
        loop_writes: bool = False,
    ) -> None:
        self.loop_writes = loop_writes
        self.entropy = SeededEntropy(seed)
        self.loop = SimulatedLoop(self.entropy.fork("loop"))
        self.disk = SimulatedDisk(self.entropy.fork("disk"), config)
        self.wal_config = wal
        self.processes: list[SimulatedFilesystem] = []
        self.jobs: list[Job] = []
        self.pace_s = 1e-3
        """What a thread takes, at most, to begin or to answer. Zero is for loops in real time."""

    def make_wal(self, directory: str = DIRECTORY, filesystem: SimulatedFilesystem | None = None) -> FileWal:
        """Return a log of a new process."""
        if filesystem is None:
            filesystem = SimulatedFilesystem(self.disk)
        self.processes.append(filesystem)
        name = f"process{len(self.processes)}"
        return FileWal(
            directory,
            self.wal_config,
            filesystem=filesystem,
            clock=FixedClock(),
            entropy=self.entropy.fork(name),
            threads=LoopThreads(self, filesystem, self.entropy.fork(name + "-threads")),
            loop_writes=LoopWrites(LoopWritesConfig()) if self.loop_writes else None,
        )

    async def open(self) -> FileWal:
        wal = self.make_wal()
        await wal.open()
        return wal

    def run(self, work: Awaitable[T]) -> T:
        """Run to the end."""
        return self.loop.run_until_complete(work)

    def run_until(self, work: Awaitable[Any], listen: Callable[[Callable[[], None]], None]) -> bool:
        """Run until ``work`` ends or what ``listen`` was given is called; return whether it was called."""

        async def race() -> bool:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            listen(lambda: None if ended.done() else ended.set_result(None))
            task = asyncio.ensure_future(work)
            await asyncio.wait([task, ended], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                task.cancel()
                return True
            ended.cancel()
            await task
            return False

        return self.run(race())

    def run_until_power_loss(self, work: Awaitable[Any]) -> bool:
        """Run until ``work`` ends or the power is lost; return whether it was."""
        return self.run_until(work, self.disk.on_power_loss)


async def read_all(wal: Wal) -> list[tuple[int, bytes]]:
    return [(record.address, bytes(record.payload)) async for record in wal.records()]


__all__ = [
    "DIRECTORY",
    "SMALL",
    "FencedOutError",
    "HeadraceError",
    "History",
    "Machine",
    "append_some",
    "read_all",
]
