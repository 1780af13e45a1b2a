"""``headrace segmentstore``: a segment store by itself, or as one of a cluster."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.server import process_options as options
from headrace.cli.shared_options import option
from headrace.cli.verbs import Later, Verb
from headrace.coordination.location import CoordinatorLocation
from headrace.errors import InvalidArgumentError
from headrace.runtime.client_variables import COORDINATOR_VARIABLE

_EXAMPLES = """
headrace segmentstore --coordinator memory --port 0 --rest-port 0 --ready-file ready.json
headrace segmentstore --coordinator memory --data-dir /var/lib/headrace
headrace segmentstore --coordinator zk://h1:2181,h2:2181/streams --port 0 --rest-port 0
"""


class Coordinator(click.ParamType[CoordinatorLocation]):
    """What processes agree through."""

    name = "coordinator"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> CoordinatorLocation:
        if isinstance(value, CoordinatorLocation):
            return value
        try:
            return CoordinatorLocation.parse("memory://" if value == "memory" else value)
        except InvalidArgumentError as error:
            self.fail(f"{error}; memory: this process is alone", param, ctx)


def declare(name: str, summary: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.server.process", "run_segmentstore"),
        summary,
        _EXAMPLES,
        option(
            "--coordinator",
            metavar="URI",
            type=Coordinator(),
            required=True,
            envvar=COORDINATOR_VARIABLE,
            help="what processes agree through: zk://HOST:PORT,HOST:PORT/ROOT for a store of that cluster, "
            "or memory for one that is alone and has all containers",
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
