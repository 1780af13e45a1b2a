"""What ``headrace stream`` shows."""

from __future__ import annotations

from headrace.cli.output import (
    print_columns,
    print_fields,
    print_json,
    print_line,
    progress,
)
from headrace.cli.servers import Connection, scoped
from headrace.model.policy_words import retention_text, scaling_text


def print_cut(*, stream: str, at: str | None, connection: Connection, as_json: bool) -> None:
    from headrace.runtime.clock import SystemClock
    from headrace.runtime.times import parse_time_ms

    scope, stream = scoped(stream)
    time_ms = None if at is None else parse_time_ms(at, SystemClock().now_ms())
    with connection.connect() as client:
        if time_ms is None:
            cut, found_ms, is_head = client.tail_cut(scope, stream), None, False
        else:
            found = client.cut_at(scope, stream, time_ms)
            cut, found_ms, is_head = found.cut, found.time_ms, found.is_head
    if as_json:
        print_json({"cut": cut.as_text(), "time_ms": found_ms, "is_head": is_head})
        return
    if is_head:
        progress("where the stream was then is not known, or truncated: this is its head")
    print_line(cut.as_text())


def describe_stream(*, stream: str, connection: Connection, as_json: bool) -> None:
    from headrace.model.segment_id import epoch_of, number_of, segment_id_text

    scope, stream = scoped(stream)
    with connection.connect() as client:
        info = client.stream_info(scope, stream)
        segments = []
        for each in client.current_segments(scope, stream):
            found = client.segment_info(scope, stream, each.segment_id)
            segments.append(
                {
                    "id": each.segment_id,
                    "id_text": segment_id_text(each.segment_id),
                    "number": number_of(each.segment_id),
                    "epoch": epoch_of(each.segment_id),
                    "low": each.key_range.low,
                    "high": each.key_range.high,
                    "start": found.start_offset,
                    "length": found.length,
                }
            )
    scaling, retention = info.configuration.scaling, info.configuration.retention
    tags, head, tail = sorted(info.configuration.tags), info.head.as_text(), info.tail.as_text()
    if as_json:
        print_json(
            {
                "scope": scope,
                "stream": stream,
                "sealed": info.sealed,
                "scaling": {
                    "kind": scaling.kind.name.lower(),
                    "target_rate": scaling.target_rate,
                    "scale_factor": scaling.scale_factor,
                    "segments_min": scaling.segments_min,
                },
                "retention": {
                    "kind": retention.kind.name.lower(),
                    "minimum": retention.minimum,
                    "maximum": retention.maximum,
                },
                "tags": tags,
                "head": head,
                "tail": tail,
                "segments": segments,
            }
        )
        return
    print_fields(
        [
            ("stream", f"{scope}/{stream}"),
            ("sealed", info.sealed),
            ("scaling", scaling_text(scaling)),
            ("retention", retention_text(retention)),
            ("tags", ", ".join(tags) or None),
            ("head", head),
            ("tail", tail),
        ]
    )
    if segments:
        print_line("")
        columns = ("low", "high", "start", "length")
        rows = [[each["id_text"], *(each[name] for name in columns)] for each in segments]
        print_columns(["id", *columns], rows)
