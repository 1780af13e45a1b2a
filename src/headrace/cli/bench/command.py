"""``headrace bench``: how fast a server is, from where it is called."""

from __future__ import annotations

import click

from headrace.cli.shared_options import CONNECTION, argument, option
from headrace.cli.verbs import Later, Verb

_EXAMPLES = """
headrace bench
headrace bench write read --events 1000000 --size 100 --writers 4
headrace bench latency --rate 5000 --seconds 30 --json
"""


def declare(name: str, summary: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.bench.run", "bench"),
        summary,
        _EXAMPLES,
        argument(
            "loads",
            "LOAD",
            "write: as fast as it goes; read: that, from the head; latency: at a fixed rate (default: all)",
            nargs=-1,
            type=click.Choice(["write", "read", "latency"]),
        ),
        _number(100_000, "to write and read", "--events"),
        option("--size", metavar="SIZE", default="1000", help="of each event (default: 1000 bytes)"),
        _number(1, "that write at the same time", "--writers"),
        _number(4, "of the streams", "-s", "--segments"),
        _number(100, "routing keys", "--keys"),
        _number(1000, "events per second of the load latency", "--rate"),
        option("--seconds", type=float, metavar="N", default=5.0, help="that it takes (default: 5)"),
        option("--scope", metavar="SCOPE", help="one that does not exist (default: bench- and a number)"),
        *CONNECTION,
    )


def _number(default: int, help: str, *names: str) -> click.Option:  # noqa: A002 - click's
    return option(*names, type=int, metavar="N", default=default, help=f"{help} (default: {default})")
