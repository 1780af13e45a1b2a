"""Runs tests and says whose markers are wrong, by the CPU time that each of them took; not for a suite.

    python tools/find_slow_tests.py [arguments of pytest, such as tests/unit]

``slow``: the test, all its cases together, with fixtures and the processes that it started took more than a
tenth of a second of CPU, or waited for more than five. ``cluster``: its processes took some time. A busy
machine inflates all of it: look twice. With TEST_TIMES=file what each test took goes there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SLOW_CPU_S = 0.2
SLOW_WAIT_S = 5.0
QUICK_CPU_S = 0.05
PROCESSES_CPU_S = 0.2
MARKERS = ("slow", "cluster", "spark")


class Reading(NamedTuple):
    """Seconds: CPU of this process, CPU of those it has waited for, and on the wall."""

    own: float
    processes: float
    wall: float

    @classmethod
    def now(cls) -> Reading:
        times = os.times()
        processes = times.children_user + times.children_system
        return cls(times.user + times.system, processes, time.perf_counter())

    def since(self, before: Reading) -> Reading:
        return Reading(*(now - then for now, then in zip(self, before, strict=True)))

    def plus(self, other: Reading) -> Reading:
        return Reading(*(mine + its for mine, its in zip(self, other, strict=True)))

    @property
    def cpu(self) -> float:
        return self.own + self.processes

    @property
    def is_slow(self) -> bool:
        return self.cpu > SLOW_CPU_S or self.wall - self.cpu > SLOW_WAIT_S


class Stopwatch:
    """A plugin; reports carry what it reads, from the processes of pytest-xdist too."""

    def __init__(self) -> None:
        self.taken: dict[str, tuple[Reading, list[str]]] = {}
        """What each test took, and its markers."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        item.stash[STARTED] = Reading.now()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome: Any = yield
        if call.when == "teardown":
            markers = [name for name in MARKERS if item.get_closest_marker(name)]
            taken = Reading.now().since(item.stash[STARTED])
            outcome.get_result().user_properties.append(("taken", (tuple(taken), markers)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == "taken":
                reading, markers = value  # type: ignore[misc]
                self.taken[report.nodeid] = Reading(*reading), markers

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.taken:
            return
        terminalreporter.section("markers")
        everything = sorted(self._of_all_cases().items(), key=lambda each: -each[1][0].cpu)
        slow_files = {file_of(name) for name, (taken, _) in everything if taken.cpu > QUICK_CPU_S}
        for name, (taken, markers) in everything:
            times = f"{taken.cpu:6.2f} s of CPU, {taken.wall:6.2f} s in all"
            if taken.is_slow and "slow" not in markers:
                terminalreporter.write_line(f"slow, but not marked:        {times}  {name}")
            if "slow" in markers and file_of(name) not in slow_files:
                terminalreporter.write_line(f"marked slow, as nothing here: {times}  {name}")
            if taken.processes > PROCESSES_CPU_S and not {"cluster", "spark"} & set(markers):
                terminalreporter.write_line(f"starts processes, no cluster: {times}  {name}")
        total = sum(taken.cpu for taken, _ in self.taken.values())
        terminalreporter.write_line(f"{len(everything)} tests, {total:.0f} s of CPU without collection")
        if path := os.environ.get("TEST_TIMES"):
            lines = (f"{t.cpu:.3f}\t{t.wall:.3f}\t{','.join(m)}\t{name}\n" for name, (t, m) in everything)
            Path(path).write_text("".join(lines))

    def _of_all_cases(self) -> dict[str, tuple[Reading, list[str]]]:
        """Return what each test took with all its parameters, and the markers of its last case."""
        found: dict[str, tuple[Reading, list[str]]] = {}
        for name, (taken, markers) in self.taken.items():
            test = name.partition("[")[0]
            before = found[test][0] if test in found else Reading(0.0, 0.0, 0.0)
            found[test] = taken.plus(before), markers
        return found


STARTED = pytest.StashKey[Reading]()


def file_of(name: str) -> str:
    return name.partition("::")[0]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Stopwatch(), "stopwatch")


def main() -> None:
    """Become pytest with this file as a plugin, which its processes find by name."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    usual = ["-q", "-n", "2", "--dist", "worksteal", "--hypothesis-profile=dev"]
    os.execv(
        sys.executable, [sys.executable, "-m", "pytest", "-p", Path(__file__).stem, *usual, *sys.argv[1:]]
    )


if __name__ == "__main__":
    main()
