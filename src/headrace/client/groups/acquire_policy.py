"""How many segments a reader takes, which one it gives back, and who is first: as all clients decide. Pure.

The reader with most in front of it is the first to release and the last to acquire.

Source: protocol, "Timers, acquire/release policy".
"""

from __future__ import annotations

from headrace.client.groups.group_state import DISTANCE_MIN, GroupState
from headrace.client.segment_address import SegmentAddress
from headrace.model.hashing import murmur3
from headrace.model.key_space import hash_to_position


def relative_sizes(state: GroupState) -> dict[str, float]:
    """Return the load of each reader: its segments, by the part that its distance to the tail has of the
    largest one.
    """
    known = state.distances
    distances = {
        reader: max(DISTANCE_MIN, known.get(reader, 0)) for reader, owned in state.assigned.items() if owned
    }
    largest = max(distances.values(), default=DISTANCE_MIN)
    return {
        reader: len(owned) * distances[reader] / largest if owned else 0.0
        for reader, owned in state.assigned.items()
    }


def ranking(state: GroupState, reader: str) -> int:
    """Return the place of a reader among all, the one with most in front first."""
    sizes = relative_sizes(state)
    return sorted(sizes, key=lambda each: (-sizes[each], each)).index(reader)


def count_to_acquire(state: GroupState, reader: str) -> int:
    """Return how many segments an online reader takes, one at least if there are any."""
    free, readers = len(state.unassigned), len(state.assigned)
    if not free:
        return 0
    fair = (2 * state.segment_count + readers) // (2 * readers)  # rounded half up
    return max(free // readers, min(free, fair - len(state.assigned[reader])), 1)


def segment_to_release(state: GroupState, reader: str) -> SegmentAddress | None:
    """Return what a reader that has too much gives back; None: it has not."""
    owned, sizes = state.assigned[reader], relative_sizes(state)
    if len(owned) <= 1 or sizes[reader] <= min(sizes.values()) + max(1, len(state.unassigned)):
        return None
    seed = _java_hash(reader)

    def place(segment: SegmentAddress) -> float:
        return hash_to_position(murmur3(segment.name.encode("utf-16-le"), seed)[0])

    return max(owned, key=place)


def _java_hash(text: str) -> int:
    """Return the hash of a text in other clients: 31 times the one so far and a code unit, signed 32 bits."""
    value, units = 0, text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value
