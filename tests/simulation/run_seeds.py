"""Runs scenarios with many seeds on all cores; makes a failing run small; runs one seed with its trace.

python -m tests.simulation.run_seeds --seeds 500
python -m tests.simulation.run_seeds --scenario data_plane --first 34 --trace
python -m tests.simulation.run_seeds --scenario container --first 7 --seeds 1 --reduction "clients=1 steps=9"
"""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from headrace.limits import GIB
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.loop_time import ExactTime, LoopTime, MillisecondTime
from headrace.testing.simulation import SimulationResult, simulate
from tests.simulation.reduction import ALL, Reduction, shrink
from tests.simulation.scenarios.catalogue import SCENARIOS

_LIMIT_S: Final = 10_000.0
_REPORT_EVERY: Final = 50
_MESSAGE_CHARS_MAX: Final = 4_000

_MEMORY_BYTES_MAX: Final = 4 * GIB
"""Address space of a process that runs seeds: one that takes more fails as MemoryError, with its number."""


@dataclass(frozen=True, slots=True)
class Found:
    """One run of one seed."""

    scenario: str
    seed: int
    virtual_seconds: float
    failure: str = ""
    reduction: str = ""
    """The smallest run found that fails alike; empty if nothing can be left out."""


def run_one(
    scenario: str,
    seed: int,
    *,
    reduction: Reduction = ALL,
    loop_time: LoopTime | None = None,
    trace_callbacks: bool = False,
) -> SimulationResult[Any]:
    """Run one seed of a scenario, in this process.

    ``loop_time``: how the program reads time; by default the seed decides.

    Raises:
        BaseException: what the scenario raises, with a note that names the seed.
    """
    found = SCENARIOS[scenario]
    return simulate(
        seed,
        partial(_run, found.run, reduction),
        network=found.network,
        limit_s=_LIMIT_S,
        loop_time=draw_time(seed) if loop_time is None else loop_time,
        trace_callbacks=trace_callbacks,
        lines_retained=10_000_000 if trace_callbacks else None,
    )


def draw_time(seed: int) -> LoopTime:
    """Return how the program of a seed reads time: every other one in whole milliseconds, of a machine
    that was started up to half a year ago.
    """
    entropy = SeededEntropy(f"{seed}/time")
    if entropy.randbelow(2):
        return ExactTime()
    return MillisecondTime(entropy.randbelow(1 << entropy.randbelow(35)))


def _run(run: Any, reduction: Reduction, sim: Any) -> Any:
    return run(sim, reduction)


def shrink_one(scenario: str, seed: int, error: BaseException, *, limit_s: float) -> Reduction:
    """Return the smallest reduction found in ``limit_s`` real seconds whose run fails with such an error."""
    whole = SCENARIOS[scenario]
    deadline = time.monotonic() + limit_s

    def fails(reduction: Reduction) -> bool:
        try:
            run_one(scenario, seed, reduction=reduction)
        except Exception as other:
            return type(other) is type(error)
        return False

    return shrink(
        fails,
        lives=whole.lives,
        clients=whole.clients,
        steps=whole.steps,
        faults=whole.faults,
        go_on=lambda: time.monotonic() < deadline,
    )


def run_seeds(
    scenarios: Mapping[str, Sequence[int]], processes: int, *, shrink_s: float = 0.0
) -> Iterator[Found]:
    """Run the seeds of each scenario and yield what was found, in the order in which it is.

    Raises:
        RuntimeError: a process died; it names the seeds that may be to blame.
    """
    rounds = zip_longest(*([(name, seed, shrink_s) for seed in seeds] for name, seeds in scenarios.items()))
    jobs = [job for jobs in rounds for job in jobs if job is not None]
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare)
    try:
        running = {pool.submit(_run_job, job): job for job in jobs}
        for done in as_completed(running):
            yield done.result()
            del running[done]
    except BrokenProcessPool as error:
        suspects = ", ".join(f"{name} {seed}" for name, seed, _ in list(running.values())[: 2 * processes])
        raise RuntimeError(f"a process died while it ran one of: {suspects}") from error
    finally:
        pool.shutdown(cancel_futures=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code."""
    options = _parse(arguments)
    if options.trace:
        result = run_one(
            options.scenario[0], options.first, reduction=options.reduction, trace_callbacks=True
        )
        sys.stdout.write("\n".join(result.trace.lines) + "\n")
        return 0
    if options.reduction != ALL:
        run_one(options.scenario[0], options.first, reduction=options.reduction)
        return 0
    scenarios = choose_seeds(options.scenario, options.first, options.seeds)
    failures, virtual_s = 0, 0.0
    total = sum(len(seeds) for seeds in scenarios.values())
    sys.stdout.write(f"{', '.join(f'{name} {len(seeds)}' for name, seeds in scenarios.items())}\n")
    began = time.monotonic()
    results = run_seeds(scenarios, options.processes, shrink_s=options.shrink)
    for done, found in enumerate(results, start=1):
        virtual_s += found.virtual_seconds
        if found.failure:
            failures += 1
            sys.stdout.write(describe(found))
        if done % _REPORT_EVERY == 0 or done == total:
            rate = 60 * done / max(1e-9, time.monotonic() - began)
            sys.stdout.write(
                f"{done} of {total} runs, {virtual_s:.0f} virtual seconds, {failures} failed, "
                f"{rate:.0f} seeds/minute\n"
            )
            sys.stdout.flush()
    return 1 if failures else 0


def choose_seeds(names: Sequence[str] | None, first: int, count: int) -> dict[str, range]:
    """Return the seeds of each scenario: all of them for those that are named, shares if none is."""
    if names:
        return {name: range(first, first + count) for name in names}
    return {name: range(first, first + SCENARIOS[name].seeds(count)) for name in sorted(SCENARIOS)}


def describe(found: Found) -> str:
    """Return a failure as text: seed, scenario, how to repeat the smallest run, and its end."""
    again = f"python -m tests.simulation.run_seeds --scenario {found.scenario} --first {found.seed}"
    if found.reduction:
        again += f' --reduction "{found.reduction}"'
    else:
        again += " --seeds 1"
    return f"{found.scenario} seed {found.seed} failed; repeat it: {again}\n{found.failure}\n"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run_seeds", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument(
        "--scenario", action="append", choices=sorted(SCENARIOS), help="which (all, by share)"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at a time (one per core)")
    parser.add_argument(
        "--shrink", type=float, default=20.0, help="seconds spent on making a failing run smaller (20)"
    )
    parser.add_argument(
        "--reduction", type=Reduction.parse, default=ALL, help="run the first seed with so much left out"
    )
    parser.add_argument(
        "--trace", action="store_true", help="run one seed and print every step of every task"
    )
    options = parser.parse_args(arguments)
    if (options.trace or options.reduction != ALL) and len(options.scenario or ()) != 1:
        parser.error("one run needs one --scenario")
    return options


def _run_job(job: tuple[str, int, float]) -> Found:
    scenario, seed, shrink_s = job
    try:
        result = run_one(scenario, seed)
    except Exception as error:
        reduction = shrink_one(scenario, seed, error, limit_s=shrink_s) if shrink_s else ALL
        return Found(scenario, seed, 0.0, _failure_of(scenario, seed, error, reduction), str(reduction))
    finally:
        # A run ends with a megabyte of dead hosts, and the collector is off during it.
        gc.collect()
    return Found(scenario, seed, result.virtual_seconds)


def _failure_of(scenario: str, seed: int, error: Exception, reduction: Reduction) -> str:
    """Return the message and the trace of the smallest run."""
    if reduction != ALL:
        try:
            run_one(scenario, seed, reduction=reduction)
        except Exception as smaller:
            error = smaller
    notes = "\n".join(getattr(error, "__notes__", []))
    return f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS_MAX] + f"\n{notes}"


def _prepare() -> None:
    """Make a process one that runs seeds: hundreds of broken hosts log what is expected of them."""
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, resource.RLIM_INFINITY))


if __name__ == "__main__":
    sys.exit(main())
