"""``headrace segmentstore``: a segment store by itself."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.server import process_options as options
from headrace.cli.shared_options import option
from headrace.cli.verbs import Later, Verb

_EXAMPLES = """
headrace segmentstore --coordinator memory --port 0 --rest-port 0 --ready-file ready.json
headrace segmentstore --coordinator memory --data-dir /var/lib/headrace
"""


class Coordinator(click.Choice[str]):
    """What processes agree through. One is built."""

    def __init__(self) -> None:
        super().__init__(["memory"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            self.fail(
                f"{value!r} is not built yet: there is memory, with which this process agrees with nobody "
                "and has all containers of its data directory",
                param,
                ctx,
            )
        return str(value)


def declare(name: str, summary: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.server.process", "run_segmentstore"),
        summary,
        _EXAMPLES,
        option(
            "--coordinator",
            metavar="memory",
            type=Coordinator(),
            required=True,
            expose_value=False,  # with the only one there is nothing to agree on
            help="what processes agree through; memory: this one is alone and has all containers",
        ),
        *options.DATA,
        *options.HOST,
        options.advertise("segmentstore", "data"),
        options.advertise("rest", "health and metrics"),
        # The longer name is that of the setting, which errors about an address name.
        options.port(*("--port", "--segmentstore-port", "segmentstore_port"), what="data", default=12345),
        options.port("--rest-port", what="health and metrics", default=10080),
        options.users("users who may ask for metrics; needs the setting auth.token_key; none: all is open"),
        options.READY_FILE,
        options.CONTAINERS,
        *options.tls("both ports"),
        *options.LOGS,
    )
