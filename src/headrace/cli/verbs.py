"""How verbs are declared and what their arguments share: help that ends with examples, ``--uri``,
``--json``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import InvalidArgumentError
from headrace.runtime.client_variables import TLS_CA_VARIABLE, URI_VARIABLE

if TYPE_CHECKING:  # the client is imported by the verb when it is executed: help is fast
    from headrace.client.blocking import BlockingClient

Subparsers = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it

URI_DEFAULT: Final = "tcp://localhost:9090"
REST_DEFAULT: Final = "127.0.0.1:10080"

_CONTROL_ATTEMPTS: Final = 4
"""A person who mistyped an address should not wait for many attempts."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Prints examples as they are written, in a layout for long options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=100)


def add_noun(
    nouns: Subparsers[argparse.ArgumentParser], name: str, summary: str
) -> Subparsers[argparse.ArgumentParser]:
    """Declare a noun and return what its verbs are added to."""
    noun = nouns.add_parser(name, help=summary, description=summary, formatter_class=HelpFormatter)
    return noun.add_subparsers(title="verbs", metavar="VERB", required=True)


def add_verb(
    verbs: Subparsers[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
    examples: str,
    *,
    connects: bool = True,
) -> argparse.ArgumentParser:
    """Declare a verb; ``examples`` are complete command lines, one a line."""
    lines = "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())
    verb = verbs.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"Example:\n{lines}",
        formatter_class=HelpFormatter,
    )
    verb.set_defaults(run=run)
    if connects:
        verb.add_argument(
            "--uri",
            default=os.environ.get(URI_VARIABLE, URI_DEFAULT),
            help=f"controller to connect to (default: ${URI_VARIABLE}, or {URI_DEFAULT})",
        )
        _add_authorities(verb)
        verb.add_argument("--json", action="store_true", help="answer in JSON")
    return verb


def add_rest(verb: argparse.ArgumentParser) -> None:
    """Declare what verbs take that ask the REST interface."""
    verb.add_argument(
        "--rest",
        metavar="HOST:PORT",
        default=REST_DEFAULT,
        help=f"REST address, behind https:// if it speaks TLS (default: {REST_DEFAULT})",
    )
    _add_authorities(verb)
    verb.add_argument("--json", action="store_true", help="answer in JSON")


def _add_authorities(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--tls-ca",
        metavar="FILE",
        help=f"authorities to trust, in PEM form (default: ${TLS_CA_VARIABLE}, or the system's)",
    )


def add_confirmation(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--yes", action="store_true", help="do it without asking")


def confirm(chosen: argparse.Namespace, what: str) -> None:
    """Ask before something that cannot be undone.

    Raises:
        InvalidArgumentError: the answer is no, or there is no terminal to ask at.
    """
    if chosen.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgumentError(f"{what}: this cannot be undone; add --yes to do it without being asked")
    print(f"{what}? This cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InvalidArgumentError("not confirmed, nothing was done")


def connect(chosen: argparse.Namespace) -> BlockingClient:
    """Return a client of the controller the caller named."""
    # What gRPC itself has to say about a connection would stand beside the sentence of the error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from headrace.client.blocking import connect as connect_client
    from headrace.client.config import ClientConfig, ControllerAddress

    if chosen.tls_ca and not ControllerAddress.parse(chosen.uri).tls:
        raise plain_with_authorities(chosen.uri, "tls")
    return connect_client(
        chosen.uri, ClientConfig(control_attempts=_CONTROL_ATTEMPTS, **tls_options(chosen.tls_ca))
    )


def tls_options(authorities: str | None) -> dict[str, Any]:
    """Return what ``--tls-ca`` means for the settings of a client; the environment counts without it."""
    return {"tls_authorities": Path(authorities)} if authorities else {}


def plain_with_authorities(address: str, scheme: str) -> InvalidArgumentError:
    """Return what is wrong with ``--tls-ca`` and an address without TLS: secrets would be readable."""
    return InvalidArgumentError(f"{address} is without TLS, --tls-ca is for {scheme}:// only")


def scoped(name: str) -> tuple[str, str]:
    """Take ``scope/stream`` apart.

    Raises:
        InvalidArgumentError: it has not this form.
    """
    scope, slash, stream = name.partition("/")
    if not scope or not slash or not stream or "/" in stream:
        raise InvalidArgumentError(f"{name!r} is not SCOPE/STREAM")
    return scope, stream
