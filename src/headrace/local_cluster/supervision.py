"""Which process of a local cluster is to be started, asked to end or killed, and when. Pure.

ZooKeeper comes first, then all others at once. Until each of them was ready once, one that ends is a failed
start, and everything is ended. Afterwards it is started again, after pauses that grow as long as it does not
stay. The end is in the reverse order: controllers, then all stores together, so that none waits for others to
take over, and ZooKeeper last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Final

PAUSE_S: Final = 0.5
"""Before the first new start of a process; doubled with each one that follows."""
PAUSE_MAX_S: Final = 30.0
STAYED_S: Final = 60.0
"""A process that was ready for so long has not failed to start: the next pause is the first one again."""
END_S: Final = 30.0
"""How long a process that was asked to end may take."""


class Kind(IntEnum):
    """In the order of ending, backwards."""

    ZOOKEEPER = 0
    STORE = 1
    CONTROLLER = 2


class Step(Enum):
    START = auto()
    END = auto()
    KILL = auto()


class _Phase(Enum):
    RESTS = auto()
    """It is to be started, at a time."""
    STARTS = auto()
    READY = auto()
    GONE = auto()


@dataclass(slots=True)
class _Process:
    kind: Kind
    phase: _Phase = _Phase.RESTS
    due_s: float = 0.0
    """When it is to be started, or killed."""
    failures: int = 0
    ready_s: float = 0.0
    asked: bool = False
    killed: bool = False

    @property
    def runs(self) -> bool:
        return self.phase in {_Phase.STARTS, _Phase.READY}


class Supervision:
    """Told what happens to the processes, by their names; says what is to be done, each step once."""

    def __init__(self, kinds: Mapping[str, Kind], *, restarts: bool = True) -> None:
        self._processes = {name: _Process(kind) for name, kind in kinds.items()}
        self._restarts = restarts
        self._to_be_ready = set(kinds)
        self.is_ending = False
        self.failed = ""
        """The process that ended before all were ready."""

    @property
    def is_up(self) -> bool:
        """Whether every process was ready once."""
        return not self._to_be_ready

    @property
    def is_over(self) -> bool:
        return self.is_ending and not any(each.runs for each in self._processes.values())

    @property
    def starts(self) -> bool:
        """Whether some process runs and is not ready yet."""
        return any(each.phase is _Phase.STARTS for each in self._processes.values())

    def is_ready(self, name: str) -> bool:
        return self._processes[name].phase is _Phase.READY

    def next_s(self) -> float | None:
        """Return when a step is due that nothing else announces; None: never."""
        times = [
            each.due_s
            for each in self._processes.values()
            if each.phase is _Phase.RESTS or (each.runs and each.asked and not each.killed)
        ]
        return min(times, default=None)

    # ---- events

    def on_ready(self, name: str, now_s: float) -> None:
        """A process that was started can be used."""
        process = self._processes[name]
        if process.phase is _Phase.STARTS:
            process.phase, process.ready_s = _Phase.READY, now_s
            self._to_be_ready.discard(name)

    def on_ended(self, name: str, now_s: float) -> float | None:
        """A process has ended; return the seconds until it is started again, None if it is not."""
        process = self._processes[name]
        stayed = process.phase is _Phase.READY and now_s - process.ready_s >= STAYED_S
        process.phase, process.killed = _Phase.GONE, False
        if self.is_ending:
            return None
        if not self.is_up:
            self.failed = name
            self.end()
            return None
        if not self._restarts:
            return None
        process.failures = 1 if stayed else process.failures + 1
        pause_s = min(PAUSE_S * 2.0 ** min(process.failures - 1, 16), PAUSE_MAX_S)
        process.phase, process.due_s = _Phase.RESTS, now_s + pause_s
        return pause_s

    def end(self) -> None:
        """End everything. Idempotent."""
        self.is_ending = True
        for process in self._processes.values():
            if process.phase is _Phase.RESTS:
                process.phase = _Phase.GONE

    # ---- steps

    def steps(self, now_s: float) -> list[tuple[Step, str]]:
        """Return what is to be done now; it counts as done."""
        return self._ends(now_s) if self.is_ending else self._starts(now_s)

    def _starts(self, now_s: float) -> list[tuple[Step, str]]:
        found = []
        not_ready = {each.kind for each in self._processes.values() if each.phase is not _Phase.READY}
        waits = Kind.ZOOKEEPER in not_ready and not self.is_up
        for name, process in self._processes.items():
            if waits and process.kind is not Kind.ZOOKEEPER:
                continue
            if process.phase is _Phase.RESTS and process.due_s <= now_s:
                process.phase = _Phase.STARTS
                found.append((Step.START, name))
        return found

    def _ends(self, now_s: float) -> list[tuple[Step, str]]:
        running = {name: each for name, each in self._processes.items() if each.runs}
        turn = max((each.kind for each in running.values()), default=None)
        found = []
        for name, process in running.items():
            if process.kind is not turn or process.killed:
                continue
            if not process.asked:
                process.asked, process.due_s = True, now_s + END_S
                found.append((Step.END, name))
            elif process.due_s <= now_s:
                process.killed = True
                found.append((Step.KILL, name))
        return found
