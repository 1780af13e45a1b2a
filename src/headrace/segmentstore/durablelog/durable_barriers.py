"""Those who wait until what was accepted so far is durable."""

from __future__ import annotations

from collections.abc import Callable

Resume = Callable[[], None]


class DurableBarriers:
    """Callbacks by the number of frames that have to be durable, in that order."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Resume, int] = {}

    @property
    def count(self) -> int:
        return len(self._waiting)

    def add(self, frames: int, resume: Resume) -> None:
        """Call ``resume`` once when so many frames are durable. Not less than of those who wait already."""
        self._waiting.pop(resume, None)
        self._waiting[resume] = frames

    def remove(self, resume: Resume) -> None:
        """Nobody waits with ``resume`` any more: a log may stand still for hours, and many give up."""
        self._waiting.pop(resume, None)

    def release(self, frames: int | None) -> None:
        """So many frames are durable; None: the log has ended, and nobody waits any more."""
        released: list[Resume] = []
        for resume, wanted in self._waiting.items():
            if frames is not None and wanted > frames:
                break
            released.append(resume)
        for resume in released:
            del self._waiting[resume]
        for resume in released:
            resume()
