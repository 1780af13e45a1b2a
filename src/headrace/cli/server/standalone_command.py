"""``headrace standalone``: everything in one process."""

from __future__ import annotations

import click

from headrace.cli.shared_options import NotEmpty, flag, option
from headrace.cli.verbs import Later, Verb

_FILE = NotEmpty("the name of a file")
_FREE = "0 is any free port"

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
        Later("headrace.cli.server.standalone", "run"),
        summary,
        _EXAMPLES,
        option(
            *("-d", "--data-dir"),
            metavar="DIR",
            help="where data live (default: $HEADRACE_DATA_DIR, or headrace-data)",
        ),
        option(
            "--storage",
            metavar="URI",
            type=NotEmpty("the URI"),
            help="store of the chunks: s3://bucket/prefix, gs://, az://, hdfs://",
        ),
        click.Option(
            ["--in-memory"],
            is_flag=True,
            default=None,
            help="store nothing on disk; all data are lost at the end",
        ),
        option(
            "--host", metavar="HOST", help="address to listen on, and to tell clients (default: 127.0.0.1)"
        ),
        option("--advertise", metavar="HOST", help="host to tell clients; needed with --host 0.0.0.0"),
        *(
            option(
                f"--advertise-{part}",
                metavar="HOST[:PORT]",
                help=f"to tell clients for {what}, if it differs",
            )
            for part, what in (("controller", "gRPC"), ("segmentstore", "data"), ("rest", "REST"))
        ),
        *(
            option(f"--{part}-port", type=int, metavar="PORT", help=f"{what} (default: {port}; {_FREE})")
            for part, what, port in (
                ("controller", "gRPC", 9090),
                ("segmentstore", "data", 12345),
                ("rest", "REST", 10080),
            )
        ),
        option(
            "--users",
            metavar="FILE",
            type=_FILE,
            help="passwords and grants of users (headrace user); none: all is open",
        ),
        option("--ready-file", metavar="PATH", help="written as JSON once clients may connect"),
        option("--containers", type=int, metavar="N", help="fixed once data exist (default: 4)"),
        option(
            "--tls-cert", metavar="FILE", type=_FILE, help="certificate, in PEM: encrypts all three ports"
        ),
        option("--tls-key", metavar="FILE", type=_FILE, help="private key of it, in PEM, not encrypted"),
        option("--config", metavar="FILE", help="settings in TOML; options given here win"),
        option(
            "--log-format",
            type=click.Choice(["human", "json"]),
            default="human",
            help="lines on stderr (default: human)",
        ),
        option(
            "--log-level",
            default="info",
            metavar="LEVEL",
            type=click.Choice(["debug", "info", "warning", "error"]),
            help="debug, info, warning or error (default: info)",
        ),
        flag("-v", "--verbose", "debug", help="the same as --log-level debug"),
    )
