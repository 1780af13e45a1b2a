"""What a shared state is after the entries that were read, in order. Pure.

A state is taken from an entry that holds one, if it is newer; an update is applied if it is newer than the
state. So entries may be read again, and from any place at or in front of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.client.revisions.entries import StateEntry, decode_entry
from headrace.client.revisions.revision import Revision
from headrace.errors import DataCorruptionError

S = TypeVar("S")
U = TypeVar("U")


class Replay(Generic[S, U]):
    """The state as far as it was read.

    ``needs_state``: no whole state was met yet, or updates were truncated that the state has not.
    """

    def __init__(
        self,
        decode_state: Callable[[bytes], S],
        decode_update: Callable[[bytes], U],
        apply: Callable[[S, U], S],
    ) -> None:
        self.revision: Revision | None = None
        self.needs_state = True
        self._state: S | None = None
        self._decode_state = decode_state
        self._decode_update = decode_update
        self._apply = apply

    @property
    def state(self) -> S:
        """What it is. There is one."""
        assert self.revision is not None
        return self._state  # type: ignore[return-value] # None may be a state

    def restart(self) -> None:
        """Updates were truncated that the state has not: only a whole state helps."""
        self.needs_state = True

    def adopt(self, state: S, revision: Revision) -> None:
        """Take a state that was made here, and is durable at ``revision``."""
        self._state, self.revision, self.needs_state = state, revision, False

    def read(self, payload: bytes | memoryview, end_offset: int) -> None:
        """Take the entry that ends at ``end_offset``.

        An update in front of the first state is skipped: reading began behind a truncation.

        Raises:
            DataCorruptionError: it is no entry, or its state or update is none; the state is the one in front
                of this entry.
        """
        entry = decode_entry(payload)
        try:
            if isinstance(entry, StateEntry):
                revision = Revision(end_offset)
                if self.needs_state or self.revision is None or revision > self.revision:
                    self.adopt(self._decode_state(bytes(entry.state)), revision)
                return
            if self.needs_state or self.revision is None:
                return
            state, reached = self.state, self.revision
            for index, update in enumerate(entry.updates):
                revision = Revision(end_offset, index)
                if revision > reached:
                    state, reached = self._apply(state, self._decode_update(bytes(update))), revision
        except DataCorruptionError:
            raise
        except Exception as error:  # whatever a codec, or the function of the user, raises
            raise DataCorruptionError(
                f"the entry that ends at offset {end_offset} cannot be applied: {error!r}; it begins with "
                f"{memoryview(payload)[:32].hex()}"
            ) from error
        self.adopt(state, reached)
