"""Positions that a person writes: the text of a cut, or JSON with an offset for each segment. Pure.

``{"0": 120, "1": 0}`` of the only stream, ``{"demo/orders": {"0": 120}}`` of several; a stream of the scope
that the options name needs no scope.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.errors import InvalidArgumentError
from headrace.model.stream_cut import StreamCut

_EXAMPLE = '{"0": 120, "1": 0}, or {"scope/stream": {"0": 120}} for several streams'


def is_json(text: str) -> bool:
    """Tell whether a position is written as JSON."""
    return text.lstrip().startswith("{")


def normal_text(option: str, text: str, scope: str, names: tuple[str, ...]) -> str:
    """Return JSON as a checkpoint has it: offsets of each stream by its full name, in order.

    Args:
        option: whose value it is, for errors.
        text: JSON.
        scope: of names without one.
        names: of the streams that are read.

    Raises:
        InvalidArgumentError: it says something else, or not a position of each stream.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"option {option}: {text!r:.80} is no JSON: {error}") from None
    if all(isinstance(each, int) for each in given.values()):
        if len(names) != 1:
            raise InvalidArgumentError(f"option {option} has offsets of one stream: {_EXAMPLE}")
        given = {names[0]: given}
    positions = {}
    for name, offsets in given.items():
        full_name = name if "/" in name else f"{scope}/{name}"
        positions[full_name] = _offsets(option, full_name, offsets)
    if positions.keys() != set(names):
        raise InvalidArgumentError(
            f"option {option} is about {', '.join(sorted(positions))}, the query reads "
            f"{', '.join(sorted(names)) or 'streams that are not named'}"
        )
    return json.dumps(dict(sorted(positions.items())))


def _offsets(option: str, name: str, offsets: Any) -> dict[str, int]:
    if not isinstance(offsets, Mapping) or not offsets:
        raise InvalidArgumentError(f"option {option}: {offsets!r:.80} is no position of {name}: {_EXAMPLE}")
    for segment, offset in offsets.items():
        if not segment.isdecimal() or isinstance(offset, bool) or not isinstance(offset, int):
            raise InvalidArgumentError(
                f"option {option}: {segment!r:.40}: {offset!r:.40} is no segment with an offset: {_EXAMPLE}"
            )
        if offset < 0:
            raise InvalidArgumentError(
                f"option {option}: an offset is at least 0, not {offset}; the words earliest and latest are "
                "about all segments"
            )
    return {
        str(segment): offsets[str(segment)]
        for segment in sorted(map(int, offsets))
        if str(segment) in offsets
    }


def cut_of(text: str, scope: str, stream: str) -> StreamCut:
    """Return the cut that a text says, of this stream if it is about several. Raises InvalidArgumentError."""
    if not is_json(text):
        return StreamCut.from_text(text)
    offsets = json.loads(text)[f"{scope}/{stream}"]
    return StreamCut.from_offsets(
        scope, stream, {int(segment): offset for segment, offset in offsets.items()}
    )
