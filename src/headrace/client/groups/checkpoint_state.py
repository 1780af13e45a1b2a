"""The checkpoints of a reader group: which are known, who has to pass them, and where they lie. Pure.

A silent checkpoint, which its name tells, collects positions and is none that readers could be set back to.

Source: protocol, "Checkpoints, silent checkpoints, stream cuts".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.client.segment_address import SegmentAddress
from headrace.errors import PreconditionError

Offsets = Mapping[SegmentAddress, int]

SILENT_MARK: Final = "_SILENT_"


def is_silent(name: str) -> bool:
    return SILENT_MARK in name


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """Immutable; each change returns another one."""

    names: tuple[str, ...] = ()
    """In the order in which they were created."""
    pending: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Readers that still have to pass, by name."""
    positions: Mapping[str, Offsets] = field(default_factory=dict)
    """As far as they were told, by name."""
    last: Offsets = field(default_factory=dict)
    """Of the last one that was completed and is not silent; none: there was none."""
    is_published: bool = False
    """The controller knows the last one, if the group retains what is behind it."""

    def begin(self, name: str, readers: Iterable[str], unassigned: Offsets) -> CheckpointState:
        """Create one; it is complete at once if there are no readers. One that is known stays as it is."""
        if name in self.positions:
            return self
        waiting = frozenset(readers)
        return replace(
            self,
            names=(*self.names, name),
            pending={**self.pending, name: waiting} if waiting else self.pending,
            positions={**self.positions, name: dict(unassigned)},
        )

    def on_passed(self, name: str, reader: str, positions: Offsets) -> CheckpointState:
        """A reader passes one at its positions. One that is not pending stays as it is.

        Raises:
            PreconditionError: the reader has passed it already.
        """
        waiting = self.pending.get(name)
        if waiting is None:
            return self
        if reader not in waiting:
            raise PreconditionError(f"{reader} has passed checkpoint {name} already")
        merged = {**self.positions[name], **positions}
        left = waiting - {reader}
        pending = {**self.pending, name: left}
        if left:
            return replace(self, pending=pending, positions={**self.positions, name: merged})
        del pending[name]
        done = replace(self, pending=pending, positions={**self.positions, name: merged})
        return done if is_silent(name) else replace(done, last=merged, is_published=False)

    def on_reader_left(self, reader: str, positions: Offsets) -> CheckpointState:
        """A reader that is no longer online passes all that it had not passed."""
        state = self
        for name in [each for each, waiting in self.pending.items() if reader in waiting]:
            state = state.on_passed(name, reader, positions)
        return state

    def clear_before(self, name: str) -> CheckpointState:
        """Forget those that were created before one that is known."""
        if name not in self.positions:
            return self
        dropped = set(self.names[: self.names.index(name)])
        return replace(
            self,
            names=self.names[self.names.index(name) :],
            pending={each: at for each, at in self.pending.items() if each not in dropped},
            positions={each: at for each, at in self.positions.items() if each not in dropped},
        )

    def without_outstanding(self) -> CheckpointState:
        """Give up those that are waited for; silent ones go on."""
        dropped = set(self.outstanding())
        return replace(
            self,
            pending={each: at for each, at in self.pending.items() if each not in dropped},
            positions={each: at for each, at in self.positions.items() if each not in dropped},
        )

    def outstanding(self) -> list[str]:
        """Return those that are waited for and not silent."""
        return [name for name in self.pending if not is_silent(name)]

    def next_for(self, reader: str) -> str | None:
        """Return the oldest one that a reader has to pass."""
        return next((name for name in self.names if reader in self.pending.get(name, ())), None)

    def completed(self, name: str) -> Offsets | None:
        """Return the positions of one that all readers have passed; None: it is pending, or not known."""
        return None if name in self.pending else self.positions.get(name)
