"""Names of scopes, streams and tables for the shell's completion, from the server the words point at.

Whatever goes wrong, nothing is proposed: a person who types is not interrupted by errors.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.cli.servers import Connection

if TYPE_CHECKING:  # only the shell completes: commands need none of it
    import click

    from headrace.client.blocking import BlockingClient

_PATIENCE_S: Final = 1.0
_NAMES_MAX: Final = 1000
_SCOPES_LISTED: Final = 8
"""Each is one call of the controller."""


def complete_scope(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Propose scopes."""
    return _ask(ctx, lambda client: _beginning(client.list_scopes(), incomplete))


def complete_stream(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Propose streams as ``scope/stream``; of many scopes these first."""
    return _ask(ctx, lambda client: _inside(client, client.list_streams, incomplete))


def complete_table(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Propose key-value tables as :func:`complete_stream` does streams."""
    return _ask(ctx, lambda client: _inside(client, client.list_key_value_tables, incomplete))


def complete_group(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Propose reader groups as :func:`complete_stream` does streams."""
    return _ask(ctx, lambda client: _inside(client, client.list_reader_groups, incomplete))


def _inside(client: BlockingClient, list_names: Callable[[str], Iterable[str]], incomplete: str) -> list[str]:
    scope, slash, begun = incomplete.partition("/")
    if slash:
        return [f"{scope}/{name}" for name in _beginning(list_names(scope), begun)]
    scopes = _beginning(client.list_scopes(), scope)
    if len(scopes) > _SCOPES_LISTED:
        return [f"{name}/" for name in scopes]
    return [f"{name}/{each}" for name in scopes for each in _beginning(list_names(name), "")][:_NAMES_MAX]


def _beginning(names: Iterable[str], begun: str) -> list[str]:
    """Return what can be meant: what is internal only if its first character was typed."""
    meant = (name for name in names if name.startswith(begun) and (begun or not name.startswith("_")))
    return sorted(islice(meant, _NAMES_MAX))


def _ask(ctx: click.Context, question: Callable[[BlockingClient], list[str]]) -> list[str]:
    uri = ctx.params.get("uri")
    if not isinstance(uri, str):
        return []  # the verb asks no controller
    try:
        with _limited_time(), Connection(uri, ctx.params.get("tls_ca")).connect(control_attempts=1) as client:
            return question(client)
    except Exception:  # noqa: BLE001 - as the module says
        return []


@contextmanager
def _limited_time() -> Iterator[None]:
    """Interrupt what takes longer than a person waits for the shell. Raises TimeoutError."""

    def interrupt(*_: object) -> None:
        raise TimeoutError

    former = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, former)
