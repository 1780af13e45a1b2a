"""What ``headrace group list`` and ``show`` do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.output import print_columns, print_fields, print_json, print_line
from headrace.cli.servers import Connection, scoped

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import Client, GroupLag


def list_groups(*, scope: str | None, connection: Connection, as_json: bool) -> None:
    with connection.connect() as client:
        scopes = sorted(client.list_scopes()) if scope is None else [scope]
        groups = [
            _summary(client, each, name)
            for each in scopes
            for name in sorted(client.list_reader_groups(each))
        ]
    if as_json:
        print_json(groups)
        return
    print_columns(
        ["GROUP", "STREAMS", "READERS", "UNREAD", "AGE"],
        [
            [each["group"], len(each["streams"]), each["readers"], each["unread_bytes"], _age(each["age_s"])]
            for each in groups
        ],
    )


def _summary(client: Client, scope: str, name: str) -> dict[str, Any]:
    with client.reader_group(group=name, scope=scope) as group:
        lag = group.lag()
        return {
            "group": f"{scope}/{name}",
            "streams": group.streams,
            "readers": len(group.readers()),
            "unread_bytes": lag.bytes,
            "age_s": _oldest(lag),
        }


def _oldest(lag: GroupLag) -> float | None:
    ages = list(lag.age_s.values())
    return None if None in ages else max((age for age in ages if age is not None), default=0.0)


def _age(age_s: float | None) -> str | None:
    return None if age_s is None else f"{age_s:.0f} s"


def show_group(*, group: str, connection: Connection, as_json: bool) -> None:
    scope, name = scoped(group)
    with connection.connect() as client, client.reader_group(group=name, scope=scope) as opened:
        lag, readers, config = opened.lag(), [each.name for each in opened.readers()], opened.config
    interval = config.checkpoint_interval_ms
    document = {
        "group": group,
        "streams": sorted(config.starts),
        "readers": readers,
        "unread_bytes": lag.bytes,
        "age_s": dict(lag.age_s),
        "checkpoint_interval_ms": None if interval < 0 else interval,
        "consumption": config.consumption.name.lower(),
        "generation": config.generation,
        "segments": [
            {
                "segment": each.segment,
                "reader": each.reader,
                "offset": each.offset,
                "end": each.length,
                "unread_bytes": each.bytes,
            }
            for each in lag.segments
        ],
    }
    if as_json:
        print_json(document)
        return
    print_fields(
        [
            ("group", group),
            ("streams", ", ".join(sorted(config.starts))),
            ("readers", ", ".join(readers) or None),
            ("unread", f"{lag.bytes} bytes"),
            ("age", _age(_oldest(lag))),
            ("checkpoints", "by hand only" if interval < 0 else f"every {interval / 1000:g} s"),
            ("consumption", config.consumption.name.lower().replace("_", " ")),
            ("generation", config.generation),
        ]
    )
    print_line("")
    print_columns(
        ["SEGMENT", "READER", "OFFSET", "END", "UNREAD"],
        [[each.segment, each.reader, each.offset, each.length, each.bytes] for each in lag.segments],
    )
