"""``headrace standalone``: everything in one process."""

from __future__ import annotations

from headrace.cli.server import process_options as options
from headrace.cli.verbs import Later, Verb

_EXAMPLES = """
headrace standalone --in-memory --controller-port 0 --ready-file ready.json
headrace standalone --data-dir /var/lib/headrace --config headrace.toml
headrace standalone --storage 's3://bucket/prefix?region=eu-west-1'
headrace standalone --host 0.0.0.0 --advertise stream-1.example.org
headrace standalone --tls-cert server.pem --tls-key server.key --users users
"""


def declare(name: str, summary: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.server.process", "run_standalone"),
        summary,
        _EXAMPLES,
        *options.DATA,
        *options.HOST,
        options.advertise("controller", "gRPC"),
        options.advertise("segmentstore", "data"),
        options.advertise("rest", "REST"),
        options.port("--controller-port", what="gRPC", default=9090),
        options.port("--segmentstore-port", what="data", default=12345),
        options.port("--rest-port", what="REST", default=10080),
        options.users("passwords and grants of users (headrace user); none: all is open"),
        options.READY_FILE,
        options.CONTAINERS,
        *options.tls("all three ports"),
        *options.LOGS,
    )
