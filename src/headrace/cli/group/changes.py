"""What ``headrace group checkpoint``, ``reset``, ``offline`` and ``delete`` do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.output import finished, print_json, print_line
from headrace.cli.servers import Connection, confirm, scoped
from headrace.errors import NoSuchReaderGroupError, PreconditionError, WaitTimeoutError
from headrace.model.quantities import parse_duration_ms

if TYPE_CHECKING:  # the connection imports the client when it is made
    from collections.abc import Mapping

    from headrace.client.blocking import StreamCut


def checkpoint_group(
    *, group: str, name: str | None, timeout: str, connection: Connection, as_json: bool
) -> None:
    scope, group_name = scoped(group)
    timeout_s = parse_duration_ms(timeout) / 1000
    with connection.connect() as client, client.reader_group(group=group_name, scope=scope) as opened:
        try:
            cuts = opened.checkpoint(name, timeout_s=timeout_s)
        except TimeoutError as error:
            raise WaitTimeoutError(str(error)) from None
    _print_cuts(cuts, as_json=as_json)


def _print_cuts(cuts: Mapping[str, StreamCut], *, as_json: bool) -> None:
    if as_json:
        print_json({stream: cut.as_text() for stream, cut in cuts.items()})
    else:
        for stream, cut in sorted(cuts.items()):
            print_line(f"{stream} {cut.as_text()}")


def reset_group(*, group: str, place: str | None, yes: bool, connection: Connection, as_json: bool) -> None:
    scope, name = scoped(group)
    where = "its last checkpoint" if place is None else place
    confirm(f"Reset reader group {group} to {where}; its readers stop", yes=yes)
    with connection.connect() as client, client.reader_group(group=name, scope=scope) as opened:
        opened.reset(place)
        cuts = opened.positions()
    _print_cuts(cuts, as_json=as_json)


def put_offline(*, group: str, reader: str, yes: bool, connection: Connection, as_json: bool) -> None:
    scope, name = scoped(group)
    confirm(f"Put reader {reader} of {group} offline", yes=yes)
    with connection.connect() as client, client.reader_group(group=name, scope=scope) as opened:
        was_online = opened.reader_offline(reader)
    if not was_online:
        raise PreconditionError(f"reader {reader} of {group} is not online")
    if as_json:
        print_json({"group": group, "reader": reader, "offline": True})
    else:
        finished(f"reader {reader} of {group} is offline")


def delete_group(*, group: str, if_exists: bool, yes: bool, connection: Connection, as_json: bool) -> None:
    scope, name = scoped(group)
    confirm(f"Delete reader group {group}", yes=yes)
    deleted = True
    with connection.connect() as client:
        try:
            client.reader_group(group=name, scope=scope).delete()
        except NoSuchReaderGroupError:
            if not if_exists:
                raise
            deleted = False
    if as_json:
        print_json({"group": group, "deleted": deleted})
    else:
        finished(f"reader group {group} {'deleted' if deleted else 'does not exist'}")
