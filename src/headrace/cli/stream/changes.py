"""What ``headrace stream`` does to a stream that exists: scale, truncate, seal, delete."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.cli.output import print_columns, print_json
from headrace.cli.servers import Connection, confirm, scoped
from headrace.errors import InvalidArgumentError, NoSuchStreamError
from headrace.model.key_space import FULL_RANGE, KeyRange, join_touching, split_evenly
from headrace.model.policies import SEGMENTS_MAX
from headrace.model.segment_id import segment_id_text
from headrace.model.stream_cut import StreamCut


def scale_stream(
    *,
    stream: str,
    segments: int | None,
    split: int | None,
    merge: Sequence[int],
    into: int,
    connection: Connection,
    as_json: bool,
) -> None:
    """Go on with ``segments`` of equal size, or ``split`` a segment, or ``merge`` some."""
    scope, stream = scoped(stream)
    with connection.connect() as client:
        current = {each.segment_id: each.key_range for each in client.current_segments(scope, stream)}
        if segments is not None:
            sealed, ranges = list(current), _split(FULL_RANGE, segments, 1, "a stream has")
        else:
            sealed = [split] if split is not None else list(dict.fromkeys(merge))
            _check_current(sealed, list(current), f"{scope}/{stream}")
            if split is not None:
                ranges = _split(current[split], into, 2, "a segment is divided into")
            else:
                ranges = _join([current[segment_id] for segment_id in sealed])
        made = client.scale_stream(scope, stream, sealed, ranges)
    rows = [
        {
            "id": each.segment_id,
            "id_text": segment_id_text(each.segment_id),
            "low": each.key_range.low,
            "high": each.key_range.high,
        }
        for each in made
    ]
    if as_json:
        ids = {"sealed": sealed, "sealed_text": [segment_id_text(each) for each in sealed]}
        print_json({"scope": scope, "stream": stream, **ids, "segments": rows})
    else:
        print_columns(["id", "low", "high"], [list(row.values())[1:] for row in rows])


def _check_current(wanted: list[int], current: list[int], stream: str) -> None:
    for segment_id in wanted:
        if segment_id not in current:
            texts = ", ".join(map(segment_id_text, current)) or "none: the stream is sealed"
            raise InvalidArgumentError(
                f"segment {segment_id_text(segment_id)} takes no events now; those of {stream} are {texts}"
            )


def _split(key_range: KeyRange, pieces: int, least: int, what: str) -> list[KeyRange]:
    if not least <= pieces <= SEGMENTS_MAX:
        unit = " segments" if least == 1 else ""
        raise InvalidArgumentError(f"{what} {least} to {SEGMENTS_MAX}{unit}, not {pieces}")
    return split_evenly(key_range, pieces)


def _join(ranges: list[KeyRange]) -> list[KeyRange]:
    joined = join_touching(ranges)
    if len(ranges) < 2 or len(joined) != 1:
        raise InvalidArgumentError("only two or more neighbours can be merged into one segment")
    return joined


def truncate_stream(
    *, stream: str, to: str, any_offset: bool, yes: bool, connection: Connection, as_json: bool
) -> None:
    scope, name = scoped(stream)
    given = None if to == "tail" else StreamCut.from_text(to)
    if given is not None and (given.scope, given.stream) != (scope, name):
        raise InvalidArgumentError(f"that is no cut of {stream} but {given}")
    confirm(f"Drop the events of {stream} in front of {given or 'its tail'}", yes=yes)
    with connection.connect() as client:
        cut = client.tail_cut(scope, name) if given is None else given
        client.truncate_stream(cut, any_offset=any_offset)
        head = cut if cut.offsets or not as_json else client.head_cut(scope, name)
    if as_json:
        print_json({"scope": scope, "stream": name, "head": head.as_text()})


def seal_stream(*, stream: str, yes: bool, connection: Connection, as_json: bool) -> None:
    scope, stream = scoped(stream)
    confirm(f"Seal stream {scope}/{stream}", yes=yes)
    with connection.connect() as client:
        client.seal_stream(scope, stream)
    if as_json:
        print_json({"scope": scope, "stream": stream, "sealed": True})


def delete_stream(
    *, stream: str, seal: bool, if_exists: bool, yes: bool, connection: Connection, as_json: bool
) -> None:
    scope, stream = scoped(stream)
    confirm(f"Delete stream {scope}/{stream} with all its events", yes=yes)
    with connection.connect() as client:
        exists = True
        if seal:
            try:
                client.seal_stream(scope, stream)
            except NoSuchStreamError:
                exists = False
        deleted = exists and client.delete_stream(scope, stream)
    if not deleted and not if_exists:
        raise NoSuchStreamError(f"stream {scope}/{stream} does not exist")
    if as_json:
        print_json({"scope": scope, "stream": stream, "deleted": deleted})
