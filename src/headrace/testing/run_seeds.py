"""Runs scenarios with many seeds on all cores, and one seed of one scenario with its whole trace.

python -m headrace.testing.run_seeds --seeds 500
python -m headrace.testing.run_seeds --scenario data_plane --first 34 --trace
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.testing.network_config import NetworkConfig
from headrace.testing.scenarios.data_plane import storm
from headrace.testing.scenarios.two_owners import rivalry
from headrace.testing.simulation import Simulation, SimulationResult, simulate

SCENARIOS: Final[dict[str, Callable[[Simulation], Coroutine[Any, Any, Any]]]] = {
    "data_plane": storm,
    "two_owners": rivalry,
}

_LIMIT_S: Final = 2_000.0
_REPORT_EVERY: Final = 50
_MESSAGE_CHARS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Found:
    """One run of one seed."""

    scenario: str
    seed: int
    virtual_seconds: float
    failure: str = ""


def run_one(scenario: str, seed: int, *, trace_callbacks: bool = False) -> SimulationResult[Any]:
    """Run one seed of a scenario, in this process.

    Raises:
        BaseException: what the scenario raises, with a note that names the seed.
    """
    return simulate(
        seed,
        SCENARIOS[scenario],
        network=NetworkConfig(drop_chance=0.002),
        limit_s=_LIMIT_S,
        trace_callbacks=trace_callbacks,
        lines_kept=10_000_000 if trace_callbacks else None,
    )


def run_seeds(scenarios: Sequence[str], seeds: Sequence[int], processes: int) -> Iterator[Found]:
    """Run every seed of every scenario and yield what was found, in the order in which it is."""
    jobs = [(scenario, seed) for seed in seeds for scenario in scenarios]
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, initializer=_quiet) as pool:
        yield from pool.imap_unordered(_run_job, jobs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit code."""
    options = _parse(arguments)
    if options.trace:
        result = run_one(options.scenario[0], options.first, trace_callbacks=True)
        sys.stdout.write("\n".join(result.trace.lines) + "\n")
        return 0
    seeds = range(options.first, options.first + options.seeds)
    failures, virtual_s = 0, 0.0
    total = len(seeds) * len(options.scenario)
    for done, found in enumerate(run_seeds(options.scenario, seeds, options.processes), start=1):
        virtual_s += found.virtual_seconds
        if found.failure:
            failures += 1
            sys.stdout.write(f"{found.scenario} seed {found.seed} failed: {found.failure}\n")
        if done % _REPORT_EVERY == 0 or done == total:
            sys.stdout.write(f"{done} of {total} runs, {virtual_s:.0f} virtual seconds, {failures} failed\n")
            sys.stdout.flush()
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.run_seeds", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (100)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="which (all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at a time (one per core)")
    parser.add_argument(
        "--trace", action="store_true", help="run one seed and print every step of every task"
    )
    options = parser.parse_args(arguments)
    options.scenario = options.scenario or sorted(SCENARIOS)
    return options


def _run_job(job: tuple[str, int]) -> Found:
    scenario, seed = job
    try:
        result = run_one(scenario, seed)
    except Exception as error:  # noqa: BLE001 - any failure is what we are looking for
        message = f"{type(error).__name__}: {error}"[:_MESSAGE_CHARS_MAX]
        return Found(scenario, seed, 0.0, message)
    return Found(scenario, seed, result.virtual_seconds)


def _quiet() -> None:
    """Hundreds of broken hosts log what is expected of them."""
    logging.disable(logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
