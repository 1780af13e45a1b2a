"""The row that decides about one stream: configuration, state, active epoch, and active workflows.

A workflow records what it is doing here before it does it, so that any controller can finish it. At most
one of them is *started* at a time, as the state says; a scale and *wants* may wait here until the stream is
free.

Source: ``docs/formats/controller-rows.md``, "S: stream".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.controller.store.rows.configuration_fields import read_configuration, write_configuration
from headrace.controller.store.rows.epoch_row import EpochRecord, read_epoch, write_epoch
from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.model.fields import FieldReader, FieldWriter
from headrace.model.key_space import KeyRange
from headrace.model.policies import StreamConfiguration

KIND: Final = b"S"
VERSION: Final = 2
"""Version 1 had no wants; it is still read."""
UID_BYTES: Final = 16


class StreamState(IntEnum):
    """Which workflow may change the stream. Numbers are those of the row."""

    CREATING = 1
    ACTIVE = 2
    UPDATING = 3
    SCALING = 4
    TRUNCATING = 5
    COMMITTING_TXN = 6
    SEALING = 7
    SEALED = 8


class ScalePhase(IntEnum):
    WAITING = 1
    """Asked for; nothing has been done."""
    STARTED = 2
    """New segments are being created."""
    REVEALED = 3
    """Successors are visible to clients; old segments are being sealed."""


class RollPhase(IntEnum):
    MERGING = 1
    """Duplicates of the transactions' epoch are being filled."""
    REVEALED = 2
    """Both new epochs are visible; segments of the active epoch are being sealed."""


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """Replace ``sealed`` of epoch ``base_epoch`` by segments with ``ranges``, numbered in their order."""

    base_epoch: int
    sealed: tuple[int, ...]
    ranges: tuple[KeyRange, ...]
    time_ms: int
    phase: ScalePhase = ScalePhase.WAITING


@dataclass(frozen=True, slots=True)
class Roll:
    """The transactions are of an older epoch: repeat it, merge there, then repeat the active epoch."""

    time_ms: int
    phase: RollPhase = RollPhase.MERGING


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """Transactions of one epoch that are being merged, in their order."""

    txn_epoch: int
    txn_ids: tuple[int, ...]
    roll: Roll | None = None


@dataclass(frozen=True, slots=True)
class Wants:
    """What was accepted while the stream was busy, at most one of each kind; begun when it is free."""

    update: StreamConfiguration | None = None
    truncate: tuple[tuple[int, int], ...] | None = None
    seal: bool = False
    delete: bool = False
    """Once the stream is sealed, which is wanted or happening."""


NO_WANTS: Final = Wants()


@dataclass(frozen=True, slots=True)
class StreamRow:
    """``uid`` distinguishes this stream from earlier ones of the same name.

    ``truncation`` and ``truncating`` are cuts (segment id, offset), sorted; None is the untouched head and
    no truncation in progress, which a sealed stream may have as well. ``updating`` is the configuration being
    applied.
    """

    uid: bytes
    created_ms: int
    state: StreamState
    config: StreamConfiguration
    epoch: EpochRecord
    truncation: tuple[tuple[int, int], ...] | None = None
    scale: ScalePlan | None = None
    commit: CommitBatch | None = None
    truncating: tuple[tuple[int, int], ...] | None = None
    updating: StreamConfiguration | None = None
    deleting: bool = False
    wants: Wants = NO_WANTS

    def check(self) -> None:
        """Assert what must hold between the fields at every moment."""
        assert len(self.uid) == UID_BYTES
        self.epoch.check()
        busy = self.state
        assert (self.commit is None) or busy in {StreamState.COMMITTING_TXN, StreamState.SEALING}
        if busy is not StreamState.SEALED:  # it stays sealed meanwhile
            assert (self.truncating is None) == (busy is not StreamState.TRUNCATING)
        assert (self.updating is None) == (busy is not StreamState.UPDATING)
        if self.scale is not None and self.scale.phase is not ScalePhase.WAITING:
            assert busy in {StreamState.SCALING, StreamState.UPDATING}
            assert self.scale.base_epoch == self.epoch.epoch
        if busy is StreamState.SCALING:
            assert self.scale is not None
            assert self.scale.phase is not ScalePhase.WAITING
        assert not self.deleting or busy in {StreamState.SEALED, StreamState.CREATING}
        if busy in {StreamState.CREATING, StreamState.SEALING, StreamState.SEALED}:
            assert self.wants == NO_WANTS or self.wants == Wants(delete=True)
        assert not self.wants.delete or self.wants.seal or busy is StreamState.SEALING


def encode_stream(row: StreamRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.fixed(row.uid)
    writer.uint(row.created_ms)
    writer.uint(row.state)
    write_configuration(writer, row.config)
    write_epoch(writer, row.epoch)
    _write_cut(writer, row.truncation)
    _write_scale(writer, row.scale)
    _write_commit(writer, row.commit)
    _write_cut(writer, row.truncating)
    writer.flag(row.updating is not None)
    if row.updating is not None:
        write_configuration(writer, row.updating)
    writer.flag(row.deleting)
    _write_wants(writer, row.wants)
    return writer.to_bytes()


def decode_stream(data: bytes) -> StreamRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (1, VERSION))
    try:
        row = StreamRow(
            uid=reader.fixed(UID_BYTES),
            created_ms=reader.uint(),
            state=StreamState(reader.uint()),
            config=read_configuration(reader),
            epoch=read_epoch(reader),
            truncation=_read_cut(reader),
            scale=_read_scale(reader),
            commit=_read_commit(reader),
            truncating=_read_cut(reader),
            updating=read_configuration(reader) if reader.flag() else None,
            deleting=reader.flag(),
            wants=NO_WANTS if reader.version == 1 else _read_wants(reader),
        )
    except (ValueError, InvalidArgumentError) as error:
        raise DataCorruptionError(f"a stream row holds {error}") from None
    reader.end()
    return row


def _write_cut(writer: FieldWriter, cut: tuple[tuple[int, int], ...] | None) -> None:
    writer.flag(cut is not None)
    if cut is not None:
        writer.uint(len(cut))
        for segment_id, offset in cut:
            writer.uint(segment_id)
            writer.sint(offset)


def _read_cut(reader: FieldReader) -> tuple[tuple[int, int], ...] | None:
    if not reader.flag():
        return None
    return tuple((reader.uint(), reader.sint()) for _ in range(reader.count(2)))


def _write_scale(writer: FieldWriter, scale: ScalePlan | None) -> None:
    writer.flag(scale is not None)
    if scale is None:
        return
    writer.uint(scale.base_epoch)
    writer.uint(scale.time_ms)
    writer.uint(scale.phase)
    writer.uint(len(scale.sealed))
    for segment_id in scale.sealed:
        writer.uint(segment_id)
    writer.uint(len(scale.ranges))
    for key_range in scale.ranges:
        writer.f64(key_range.low)
        writer.f64(key_range.high)


def _read_scale(reader: FieldReader) -> ScalePlan | None:
    if not reader.flag():
        return None
    base_epoch, time_ms, phase = reader.uint(), reader.uint(), ScalePhase(reader.uint())
    sealed = tuple(reader.uint() for _ in range(reader.count()))
    ranges = tuple(KeyRange(reader.f64(), reader.f64()) for _ in range(reader.count(16)))
    return ScalePlan(base_epoch, sealed, ranges, time_ms, phase)


def _write_commit(writer: FieldWriter, commit: CommitBatch | None) -> None:
    writer.flag(commit is not None)
    if commit is None:
        return
    writer.uint(commit.txn_epoch)
    writer.uint(len(commit.txn_ids))
    for txn_id in commit.txn_ids:
        writer.fixed(txn_id.to_bytes(16, "big"))
    writer.flag(commit.roll is not None)
    if commit.roll is not None:
        writer.uint(commit.roll.time_ms)
        writer.uint(commit.roll.phase)


def _read_commit(reader: FieldReader) -> CommitBatch | None:
    if not reader.flag():
        return None
    txn_epoch = reader.uint()
    txn_ids = tuple(int.from_bytes(reader.fixed(16), "big") for _ in range(reader.count(16)))
    roll = Roll(reader.uint(), RollPhase(reader.uint())) if reader.flag() else None
    return CommitBatch(txn_epoch, txn_ids, roll)


def _write_wants(writer: FieldWriter, wants: Wants) -> None:
    writer.flag(wants != NO_WANTS)
    if wants == NO_WANTS:
        return
    writer.flag(wants.update is not None)
    if wants.update is not None:
        write_configuration(writer, wants.update)
    _write_cut(writer, wants.truncate)
    writer.flag(wants.seal)
    writer.flag(wants.delete)


def _read_wants(reader: FieldReader) -> Wants:
    if not reader.flag():
        return NO_WANTS
    return Wants(
        update=read_configuration(reader) if reader.flag() else None,
        truncate=_read_cut(reader),
        seal=reader.flag(),
        delete=reader.flag(),
    )
