"""What ``headrace bench`` does: loads in a scope of its own, which is deleted in the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Final

from headrace.cli.bench.loads import Bench
from headrace.cli.bench.results import LOADS, Plan, Result
from headrace.cli.output import print_columns, print_json
from headrace.cli.progress import Progress
from headrace.cli.servers import Connection
from headrace.client.config import ClientConfig
from headrace.client.connect import Client, connect
from headrace.errors import HeadraceError, InvalidArgumentError
from headrace.model.quantities import parse_bytes
from headrace.runtime import loops

_TITLES: Final = {
    "load": "LOAD",
    "events": "EVENTS",
    "seconds": "SECONDS",
    "mb_per_s": "MB/S",
    "events_per_s": "EVENTS/S",
    "p50_ms": "P50 MS",
    "p95_ms": "P95 MS",
    "p99_ms": "P99 MS",
}


def bench(
    *,
    loads: Sequence[str],
    events: int,
    size: str,
    writers: int,
    segments: int,
    keys: int,
    rate: int,
    seconds: float,
    scope: str | None,
    connection: Connection,
    as_json: bool,
) -> None:
    """Carry out ``loads`` (none: all), and print what came of them.

    Raises:
        InvalidArgumentError: the scope exists: nothing in it was touched.
    """
    plan = Plan(
        loads=tuple(loads) or LOADS,
        events=events,
        size=parse_bytes(size, unit_default=1),
        writers=writers,
        segments=segments,
        keys=keys,
        rate=rate,
        seconds=seconds,
    )
    with connection.connect() as client:  # nothing is sent before its first call
        uri, config = client.uri, client.config
    results = loops.run(_run(uri, config, plan, scope, quiet=as_json))
    found = [each.document() for each in results]
    if as_json:
        of_all = {"event_bytes": plan.size, "writers": plan.writers, "segments": plan.segments}
        print_json({**of_all, "loads": found})
    else:
        print_columns(list(_TITLES.values()), [[row[name] for name in _TITLES] for row in found])


async def _run(uri: str, config: ClientConfig, plan: Plan, scope: str | None, *, quiet: bool) -> list[Result]:
    async with connect(uri, config) as client:
        name = scope or f"bench-{token_hex(4)}"
        if not await client.create_scope(name):
            raise InvalidArgumentError(
                f"scope {name} exists already: the bench makes one, and deletes it in the end"
            )
        try:
            results = await _load(client, name, plan, quiet=quiet)
        except BaseException:
            with suppress(HeadraceError):  # the first error is the one to report
                await client.delete_scope(name, recursive=True)
            raise
        await client.delete_scope(name, recursive=True)
        return results


async def _load(client: Client, scope: str, plan: Plan, *, quiet: bool) -> list[Result]:
    bench, results = Bench(client, scope, plan), list[Result]()
    if not {"write", "read"}.isdisjoint(plan.loads):
        with Progress("writing", "events", plan.events, quiet=quiet) as progress:
            written = await bench.write(progress.show)
        results += [written] if "write" in plan.loads else []
    if "read" in plan.loads:
        with Progress("reading", "events", plan.events, quiet=quiet) as progress:
            results.append(await bench.read(progress.show))
    if "latency" in plan.loads:
        total = int(plan.rate * plan.seconds)
        with Progress(f"writing {plan.rate:,} events/s", "events", total, quiet=quiet) as progress:
            results += await bench.latency(progress.show)
    return results
