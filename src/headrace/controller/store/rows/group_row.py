"""The row of a reader group, and the row of a stream that says which groups hold its data.

Source: ``docs/formats/controller-rows.md``, "G: reader group", "U: subscribers".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter

GROUP_KIND: Final = b"G"
SUBSCRIBERS_KIND: Final = b"U"
VERSION: Final = 1
ID_BYTES: Final = 16

Cut = tuple[tuple[int, int], ...]


class GroupState(IntEnum):
    CREATING = 1
    ACTIVE = 2
    UPDATING = 3
    DELETING = 4


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A cut of one stream; an empty one is unbounded."""

    scope: str
    stream: str
    cut: Cut

    @property
    def full_name(self) -> str:
        return f"{self.scope}/{self.stream}"


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What the creator of a group wants. Kept and returned exactly as given.

    ``retention_type``: 0 none, 1 released by hand, 2 released by checkpoints. Times in ms.
    """

    refresh_ms: int
    checkpoint_interval_ms: int
    checkpoints_max: int
    retention_type: int
    starts: tuple[StreamPosition, ...]
    ends: tuple[StreamPosition, ...]

    @property
    def holds_data(self) -> bool:
        """Whether retention waits for the group."""
        return self.retention_type != 0

    def subscriptions(self) -> set[tuple[str, str]]:
        """Return (scope, stream) of every stream whose data the group holds."""
        return {(each.scope, each.stream) for each in self.starts} if self.holds_data else set()


@dataclass(frozen=True, slots=True)
class GroupRow:
    """``updating`` is the configuration that is being put in the place of ``config``."""

    group_id: bytes
    generation: int
    state: GroupState
    config: GroupConfig
    updating: GroupConfig | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A group's claim on a stream and the last position it reported (empty: none yet)."""

    group_id: bytes
    generation: int
    cut: Cut = ()


@dataclass(frozen=True, slots=True)
class SubscribersRow:
    """By name ``scope/group``."""

    subscribers: dict[str, Subscriber] = field(default_factory=dict)


def encode_group(row: GroupRow) -> bytes:
    writer = FieldWriter(GROUP_KIND, VERSION)
    writer.fixed(row.group_id)
    writer.uint(row.generation)
    writer.uint(row.state)
    _write_config(writer, row.config)
    writer.flag(row.updating is not None)
    if row.updating is not None:
        _write_config(writer, row.updating)
    return writer.to_bytes()


def decode_group(data: bytes) -> GroupRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, GROUP_KIND, (VERSION,))
    try:
        row = GroupRow(
            group_id=reader.fixed(ID_BYTES),
            generation=reader.uint(),
            state=GroupState(reader.uint()),
            config=_read_config(reader),
            updating=_read_config(reader) if reader.flag() else None,
        )
    except ValueError as error:
        raise DataCorruptionError(f"a reader group row holds {error}") from None
    reader.end()
    return row


def encode_subscribers(row: SubscribersRow) -> bytes:
    writer = FieldWriter(SUBSCRIBERS_KIND, VERSION)
    writer.uint(len(row.subscribers))
    for name, subscriber in row.subscribers.items():
        writer.text(name)
        writer.fixed(subscriber.group_id)
        writer.uint(subscriber.generation)
        _write_cut(writer, subscriber.cut)
    return writer.to_bytes()


def decode_subscribers(data: bytes) -> SubscribersRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, SUBSCRIBERS_KIND, (VERSION,))
    subscribers: dict[str, Subscriber] = {}
    for _ in range(reader.count(ID_BYTES + 3)):
        name = reader.text()
        subscribers[name] = Subscriber(reader.fixed(ID_BYTES), reader.uint(), _read_cut(reader))
    reader.end()
    return SubscribersRow(subscribers)


def _write_config(writer: FieldWriter, config: GroupConfig) -> None:
    writer.sint(config.refresh_ms)
    writer.sint(config.checkpoint_interval_ms)
    writer.uint(config.checkpoints_max)
    writer.uint(config.retention_type)
    for positions in (config.starts, config.ends):
        writer.uint(len(positions))
        for position in positions:
            writer.text(position.scope)
            writer.text(position.stream)
            _write_cut(writer, position.cut)


def _read_config(reader: FieldReader) -> GroupConfig:
    refresh_ms, checkpoint_interval_ms = reader.sint(), reader.sint()
    checkpoints_max, retention_type = reader.uint(), reader.uint()
    starts, ends = (
        tuple(StreamPosition(reader.text(), reader.text(), _read_cut(reader)) for _ in range(reader.count(3)))
        for _ in range(2)
    )
    return GroupConfig(refresh_ms, checkpoint_interval_ms, checkpoints_max, retention_type, starts, ends)


def _write_cut(writer: FieldWriter, cut: Cut) -> None:
    writer.uint(len(cut))
    for segment_id, offset in cut:
        writer.uint(segment_id)
        writer.sint(offset)


def _read_cut(reader: FieldReader) -> Cut:
    return tuple((reader.uint(), reader.sint()) for _ in range(reader.count(2)))
