"""``headrace controller``: a controller by itself, and what controllers know of their own work."""

from __future__ import annotations

from headrace.cli.server import process_options as options
from headrace.cli.shared_options import COORDINATOR, REST_SERVER
from headrace.cli.verbs import Later, Noun, Verb

_EXAMPLES = """
headrace controller --coordinator zk://localhost:2181/headrace --ready-file ready.json
headrace controller --coordinator zk://z1,z2/headrace --host 0.0.0.0 --advertise c1.example.org
"""


def declare(name: str, summary: str) -> Noun:
    controller = Noun(name, summary, itself=_process(name))
    controller.verb(
        "failed-events",
        *("headrace.cli.controller.failed_events", "failed_events"),
        "Requests between controllers that failed for good and were set aside, the oldest first.",
        """
        headrace controller failed-events
        headrace controller failed-events --rest 127.0.0.1:10080 --json
        """,
        *REST_SERVER,
    )
    return controller


def _process(name: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.server.process", "run_controller"),
        "Run a controller of a cluster until SIGTERM or Ctrl-C: control calls by gRPC, REST, placement.",
        _EXAMPLES,
        COORDINATOR,
        *options.HOST,
        options.advertise("controller", "gRPC"),
        options.advertise("rest", "REST"),
        # The longer name is that of the setting, which errors about an address name.
        options.port(*("--port", "--controller-port", "controller_port"), what="gRPC", default=9090),
        options.port("--rest-port", what="REST", default=10080),
        options.users("passwords and grants of users; needs the setting auth.token_key; none: all is open"),
        options.READY_FILE,
        *options.tls("both ports, and speaks TLS with segment stores"),
        *options.LOGS,
    )
