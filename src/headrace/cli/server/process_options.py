"""Options of the verbs that start a process of the server."""

from __future__ import annotations

from typing import Final

import click

from headrace.cli.shared_options import NotEmpty, flag, option

_FILE: Final = NotEmpty("the name of a file")

DATA: Final = (
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
    option(
        "--log",
        metavar="URI",
        type=NotEmpty("the URI"),
        help="where the log is, to outlive this machine: s3://bucket/prefix, gs://, az://, bookkeeper://",
    ),
    click.Option(
        ["--in-memory"],
        is_flag=True,
        default=None,
        help="store nothing on disk; all data are lost at the end",
    ),
)
HOST: Final = (
    option("--host", metavar="HOST", help="address to listen on, and to tell clients (default: 127.0.0.1)"),
    option("--advertise", metavar="HOST", help="host to tell clients; needed with --host 0.0.0.0"),
)
READY_FILE: Final = option("--ready-file", metavar="PATH", help="written as JSON once clients may connect")
CONTAINERS: Final = option("--containers", type=int, metavar="N", help="fixed once data exist (default: 4)")
LOGS: Final = (
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


def advertise(part: str, what: str) -> click.Option:
    """Declare where clients are told to find a part of the process."""
    return option(
        f"--advertise-{part}", metavar="HOST[:PORT]", help=f"to tell clients for {what}, if it differs"
    )


def port(*names: str, what: str, default: int) -> click.Option:
    """Declare on which port a part of the process listens."""
    return option(*names, type=int, metavar="PORT", help=f"{what} (default: {default}; 0 is any free port)")


def users(text: str) -> click.Option:
    """Declare the users file."""
    return option("--users", metavar="FILE", type=_FILE, help=text)


def tls(ports: str) -> tuple[click.Option, click.Option]:
    """Declare what encrypts these ports."""
    return (
        option("--tls-cert", metavar="FILE", type=_FILE, help=f"certificate, in PEM: encrypts {ports}"),
        option("--tls-key", metavar="FILE", type=_FILE, help="private key of it, in PEM, not encrypted"),
    )
