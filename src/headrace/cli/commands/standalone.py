"""``headrace standalone``: everything in one process."""

from __future__ import annotations

import argparse
import os

from headrace.cli.verbs import Subparsers, add_verb
from headrace.runtime.client_variables import CLIENT_VARIABLES


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        nouns,
        "standalone",
        run,
        "Run controller, segment store and REST in one process until SIGTERM or Ctrl-C.",
        """
        headrace standalone --in-memory --controller-port 0 --ready-file ready.json
        headrace standalone --data-dir /var/lib/headrace --config headrace.toml
        headrace standalone --storage 's3://bucket/prefix?region=eu-west-1'
        headrace standalone --host 0.0.0.0 --advertise stream-1.example.org
        headrace standalone --tls-cert server.pem --tls-key server.key --users users
        """,
        connects=False,
    )
    verb.add_argument(
        "--data-dir", metavar="DIR", help="where data live (default: $HEADRACE_DATA_DIR, or headrace-data)"
    )
    verb.add_argument(
        "--storage",
        metavar="URI",
        type=_uri,
        help="store of the chunks: s3://bucket/prefix, gs://, az://, hdfs://",
    )
    verb.add_argument(
        "--in-memory",
        action="store_true",
        default=None,
        help="store nothing on disk; all data are lost at the end",
    )
    verb.add_argument("--host", help="address to listen on, and to tell clients (default: 127.0.0.1)")
    verb.add_argument("--advertise", metavar="HOST", help="host to tell clients; needed with --host 0.0.0.0")
    for part, what in (("controller", "gRPC"), ("segmentstore", "data"), ("rest", "REST")):
        verb.add_argument(
            f"--advertise-{part}", metavar="HOST[:PORT]", help=f"to tell clients for {what}, if it differs"
        )
    port = "0 is any free port"
    verb.add_argument("--controller-port", type=int, metavar="PORT", help=f"gRPC (default: 9090; {port})")
    verb.add_argument("--segmentstore-port", type=int, metavar="PORT", help=f"data (default: 12345; {port})")
    verb.add_argument("--rest-port", type=int, metavar="PORT", help=f"REST (default: 10080; {port})")
    verb.add_argument(
        "--users",
        metavar="FILE",
        type=_file_name,
        help="passwords and grants of users (headrace user); none: all is open",
    )
    verb.add_argument("--ready-file", metavar="PATH", help="written as JSON once clients may connect")
    verb.add_argument("--containers", type=int, metavar="N", help="fixed once data exist (default: 4)")
    verb.add_argument(
        "--tls-cert", metavar="FILE", type=_file_name, help="certificate, in PEM: encrypts all three ports"
    )
    verb.add_argument(
        "--tls-key", metavar="FILE", type=_file_name, help="private key of it, in PEM, not encrypted"
    )
    verb.add_argument("--config", metavar="FILE", help="settings in TOML; options given here win")
    verb.add_argument(
        "--log-format", choices=["human", "json"], default="human", help="lines on stderr (default: human)"
    )
    verb.add_argument(
        "--log-level",
        default="info",
        metavar="LEVEL",
        choices=["debug", "info", "warning", "error"],
        help="debug, info, warning or error (default: info)",
    )


def _file_name(text: str) -> str:
    """Refuse what an empty variable of a script leaves: without the file everything would be open."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file is empty")
    return text


def _uri(text: str) -> str:
    """Refuse what an empty variable of a script leaves: chunks would go into the data directory."""
    if not text:
        raise argparse.ArgumentTypeError("the URI is empty")
    return text


def run(chosen: argparse.Namespace) -> None:
    from headrace.runtime.collector import collect_rarely

    collect_rarely()
    from headrace.runtime import logs

    # Else gRPC has lines of its own on stderr, not of our format, one for each client that does not encrypt.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    handler = logs.configure(level=chosen.log_level, log_format=chosen.log_format)
    try:
        _serve(chosen)
    finally:
        handler.flush()  # why it ends is said behind what it said before


def _serve(chosen: argparse.Namespace) -> None:
    from headrace.runtime import settings_sources
    from headrace.standalone.config import StandaloneConfig

    config = settings_sources.load(
        StandaloneConfig,
        file=chosen.config,
        environment=os.environ,
        overrides={
            "data_dir": chosen.data_dir,
            "storage": chosen.storage,
            "in_memory": chosen.in_memory,
            "host": chosen.host,
            "advertise": chosen.advertise,
            "advertise_controller": chosen.advertise_controller,
            "advertise_segmentstore": chosen.advertise_segmentstore,
            "advertise_rest": chosen.advertise_rest,
            "controller_port": chosen.controller_port,
            "segmentstore_port": chosen.segmentstore_port,
            "rest_port": chosen.rest_port,
            "auth.users": chosen.users,
            "ready_file": chosen.ready_file,
            "containers": chosen.containers,
            "tls.cert": chosen.tls_cert,
            "tls.key": chosen.tls_key,
        },
        other_variables=CLIENT_VARIABLES,
    )
    from headrace.standalone import server

    server.run(config)
