"""Where events belong in the key space, found out as late as possible. Pure.

A stream with one segment needs no hashes: keys stay as they came, and are hashed only if the segment is
replaced while events are unacknowledged.
"""

from __future__ import annotations

from typing import Any

from headrace.client.vectors import is_arrow
from headrace.client.writer.routing import SpreadPositions, key_positions
from headrace.model.key_space import key_position

Places = Any
"""Of all events of a block, one of:

- ``None``: no event has a key; ``float``: a position in the key space; ``str``: a key;
- a list with one of these per event; a numpy array of positions; a ``pyarrow`` array of keys.
"""


def slice_places(places: Places, first: int, after: int) -> Places:
    """Return the places of some of the events."""
    return places if places is None or isinstance(places, (float, str)) else places[first:after]


def choose_places(places: Places, chosen: Any) -> Places:
    """Return the places of the events with these indices."""
    if places is None or isinstance(places, (float, str)):
        return places
    return [places[index] for index in chosen] if isinstance(places, list) else places[chosen]


def resolve_places(places: Places, count: int, spread: SpreadPositions) -> Any:
    """Return positions: one number for all, or a sequence (list or numpy array) with one per event.

    Events without a key are spread over the key space.
    """
    if isinstance(places, float):
        return places
    if isinstance(places, str):
        return key_position(places)
    if places is None:
        return spread.many(count)
    if isinstance(places, list):
        return [_position_of(place, spread) for place in places]
    return key_positions(places) if is_arrow(places) else places


def _position_of(place: float | str | None, spread: SpreadPositions) -> float:
    if isinstance(place, str):
        return key_position(place)
    return spread.next() if place is None else place
