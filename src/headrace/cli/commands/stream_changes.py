"""What ``headrace stream`` does to a stream that exists: scale, truncate, seal, delete."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headrace.cli.output import print_columns, print_json
from headrace.cli.verbs import confirm, connect, scoped
from headrace.errors import InvalidArgumentError, NoSuchStreamError
from headrace.model.key_space import FULL_RANGE, KeyRange, join_touching, split_evenly
from headrace.model.policies import SEGMENTS_MAX

if TYPE_CHECKING:  # the client is imported by the verb when it is executed: help is fast
    from headrace.client.blocking import BlockingClient


def scale_stream(chosen: argparse.Namespace) -> None:
    scope, stream = scoped(chosen.stream)
    with connect(chosen) as client:
        sealed, ranges = _plan_scale(chosen, client, scope, stream)
        made = client.scale_stream(scope, stream, sealed, ranges)
    rows = [{"id": each.segment_id, "low": each.key_range.low, "high": each.key_range.high} for each in made]
    if chosen.json:
        print_json({"scope": scope, "stream": stream, "sealed": sealed, "segments": rows})
    else:
        print_columns(["id", "low", "high"], [list(row.values()) for row in rows])


def _plan_scale(
    chosen: argparse.Namespace, client: BlockingClient, scope: str, stream: str
) -> tuple[list[int], list[KeyRange]]:
    """Return the segments to seal and the ranges that follow them."""
    current = {each.segment_id: each.key_range for each in client.current_segments(scope, stream)}
    if chosen.segments is not None:
        if not 1 <= chosen.segments <= SEGMENTS_MAX:
            raise InvalidArgumentError(f"a stream has 1 to {SEGMENTS_MAX} segments, not {chosen.segments}")
        return list(current), split_evenly(FULL_RANGE, chosen.segments)
    wanted = [chosen.split] if chosen.split is not None else list(dict.fromkeys(chosen.merge))
    for segment_id in wanted:
        if segment_id not in current:
            raise InvalidArgumentError(
                f"segment {segment_id} takes no events now; those of {scope}/{stream} are"
                f" {', '.join(map(str, current)) or 'none: the stream is sealed'}"
            )
    if chosen.split is not None:
        if not 2 <= chosen.into <= SEGMENTS_MAX:
            raise InvalidArgumentError(f"a segment is divided into 2 to {SEGMENTS_MAX}, not {chosen.into}")
        return wanted, split_evenly(current[chosen.split], chosen.into)
    joined = join_touching(current[segment_id] for segment_id in wanted)
    if len(wanted) < 2 or len(joined) != 1:
        raise InvalidArgumentError("only two or more neighbours can be merged into one segment")
    return wanted, joined


def truncate_stream(chosen: argparse.Namespace) -> None:
    from headrace.model.stream_cut import StreamCut

    scope, stream = scoped(chosen.stream)
    given = None if chosen.to == "tail" else StreamCut.from_text(chosen.to)
    if given is not None and (given.scope, given.stream) != (scope, stream):
        raise InvalidArgumentError(f"that is no cut of {chosen.stream} but {given}")
    confirm(chosen, f"Drop the events of {chosen.stream} in front of {given or 'its tail'}")
    with connect(chosen) as client:
        cut = client.tail_cut(scope, stream) if given is None else given
        client.truncate_stream(cut, any_offset=chosen.any_offset)
    if chosen.json:
        print_json({"scope": scope, "stream": stream, "head": cut.as_text()})


def seal_stream(chosen: argparse.Namespace) -> None:
    scope, stream = scoped(chosen.stream)
    confirm(chosen, f"Seal stream {chosen.stream}")
    with connect(chosen) as client:
        client.seal_stream(scope, stream)
    if chosen.json:
        print_json({"scope": scope, "stream": stream, "sealed": True})


def delete_stream(chosen: argparse.Namespace) -> None:
    scope, stream = scoped(chosen.stream)
    confirm(chosen, f"Delete stream {chosen.stream} with all its events")
    with connect(chosen) as client:
        exists = True
        if chosen.seal:
            try:
                client.seal_stream(scope, stream)
            except NoSuchStreamError:
                exists = False
        deleted = exists and client.delete_stream(scope, stream)
    if not deleted and not chosen.if_exists:
        raise NoSuchStreamError(f"stream {scope}/{stream} does not exist")
    if chosen.json:
        print_json({"scope": scope, "stream": stream, "deleted": deleted})
