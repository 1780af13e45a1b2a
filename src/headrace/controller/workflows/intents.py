"""What is written when a request is accepted, when it is begun, and when its caller may be answered.

A request for a free stream begins at once: that one write is its durable intent. One for a busy stream waits
in the row (``StreamRow.wants``), at most one of each kind, and is begun when the stream is free. What can be
refused for good is refused before anything is written. A seal drops changes that still wait: their callers
are refused then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.controller.policies.scale_request import needs_rescale
from headrace.controller.store.rows.stream_row import NO_WANTS, StreamRow, StreamState
from headrace.controller.streams.stream import Transition
from headrace.controller.workflows.delete_stream import begin_delete
from headrace.controller.workflows.seal_stream import begin_seal
from headrace.controller.workflows.truncate_stream import begin_truncate
from headrace.controller.workflows.update_stream import begin_update
from headrace.errors import NoSuchStreamError, StreamBusyError, StreamSealedError
from headrace.model.policies import StreamConfiguration

Cut = tuple[tuple[int, int], ...]

_SEALED: Final = (StreamState.SEALING, StreamState.SEALED)


def accept_update(config: StreamConfiguration, *, wait: bool) -> Transition:
    """Begin the update, or have it wait: always if ``wait``, for the sake of work that waits already.

    Raises StreamSealedError; StreamBusyError if another update waits or runs.
    """

    def transition(row: StreamRow) -> StreamRow:
        _check_changes(row)
        pending = {row.updating, row.wants.update} - {None}
        if config in pending:
            return row
        if pending:
            raise StreamBusyError("another update of the stream is in progress")
        if row.config == config and not needs_rescale(replace(row, updating=config)):
            return row
        if wait or not is_free(row):
            return replace(row, wants=replace(row.wants, update=config))
        return begin_update(config)(row)

    return transition


def accept_truncate(cut: Cut, head: Cut | None, *, wait: bool) -> Transition:
    """Begin the truncation or have it wait; do neither if ``head``, for which it was checked, has moved.

    Raises StreamSealedError; StreamBusyError if another truncation waits or runs.
    """

    def transition(row: StreamRow) -> StreamRow:
        _check_changes(row)
        pending = {row.truncating, row.wants.truncate} - {None}
        if cut in pending or cut == row.truncation:
            return row
        if pending:
            raise StreamBusyError("another truncation of the stream is in progress")
        if row.truncation != head:
            return row
        if wait or not is_free(row):
            return replace(row, wants=replace(row.wants, truncate=cut))
        return begin_truncate(dict(cut))(row)

    return transition


def accept_sealed_truncate(cut: Cut, head: Cut | None) -> Transition:
    """Begin the truncation of a sealed stream, to which nothing else happens but its deletion; do not if
    ``head``, for which it was checked, has moved.

    Raises NoSuchStreamError if it is being deleted; StreamBusyError if another truncation runs, or it is not
    sealed.
    """

    def transition(row: StreamRow) -> StreamRow:
        if row.deleting:
            raise NoSuchStreamError("the stream is being deleted")
        if row.state is not StreamState.SEALED:
            raise StreamBusyError(f"the stream is {row.state.name}")
        if cut in {row.truncating, row.truncation}:
            return row
        if row.truncating is not None:
            raise StreamBusyError("another truncation of the stream is in progress")
        return row if row.truncation != head else begin_truncate(dict(cut))(row)

    return transition


def accept_seal(*, wait: bool) -> Transition:
    """Begin the seal or have it wait."""

    def transition(row: StreamRow) -> StreamRow:
        if row.state is StreamState.CREATING:
            raise StreamBusyError("the stream is being created")
        if row.state in _SEALED or row.wants.seal:
            return row
        if wait or not is_free(row):
            return replace(row, wants=replace(row.wants, seal=True))
        return begin_seal(row)

    return transition


def accept_delete(row: StreamRow) -> StreamRow:
    """Begin the deletion, or have it wait for the seal that is wanted or happening.

    Raises StreamNotSealedError.
    """
    if row.state is StreamState.SEALING or row.wants.seal:
        return row if row.wants.delete else replace(row, wants=replace(row.wants, delete=True))
    return begin_delete(row)


def begin_wanted(row: StreamRow) -> StreamRow:
    """Begin one of the things that wait, a seal last. Raises StreamBusyError."""
    wants = row.wants
    if wants.update is None and wants.truncate is None and not wants.seal:
        return row
    if row.state is not StreamState.ACTIVE:
        raise StreamBusyError(f"the stream is {row.state.name}")
    if wants.update is not None:
        return begin_update(wants.update)(replace(row, wants=replace(wants, update=None)))
    if wants.truncate is not None:
        return begin_truncate(dict(wants.truncate))(replace(row, wants=replace(wants, truncate=None)))
    return begin_seal(row)


def is_free(row: StreamRow) -> bool:
    """Whether something may begin without overtaking what waits."""
    return row.state is StreamState.ACTIVE and row.wants == NO_WANTS


def update_is_over(row: StreamRow, config: StreamConfiguration) -> bool:
    """Whether an update that was accepted is done. Raises StreamSealedError if a seal dropped it."""
    if config in {row.updating, row.wants.update}:
        return False
    if row.config != config and row.state in _SEALED:
        raise StreamSealedError("the stream was sealed before the update could begin")
    return True


def truncation_is_over(row: StreamRow, cut: Cut) -> bool:
    """Whether a truncation that was accepted is done. Raises StreamSealedError if a seal dropped it."""
    if cut in {row.truncating, row.wants.truncate}:
        return False
    if row.truncation != cut and row.state in _SEALED:
        raise StreamSealedError("the stream was sealed before the truncation could begin")
    return True


def seal_is_over(row: StreamRow) -> bool:
    return row.state is StreamState.SEALED


def _check_changes(row: StreamRow) -> None:
    """Raises unless the stream takes changes."""
    if row.state is StreamState.CREATING:
        raise StreamBusyError("the stream is being created")
    if row.state in _SEALED or row.wants.seal:
        raise StreamSealedError("the stream is sealed: it is not changed any more")
