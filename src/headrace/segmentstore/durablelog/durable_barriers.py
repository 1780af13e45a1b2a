"""Callbacks that wait until everything accepted so far is durable."""

from __future__ import annotations

from collections.abc import Callable

Resume = Callable[[], None]


class DurableBarriers:
    """Callbacks in the order of the number of frames that each needs durable."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Resume, int] = {}

    @property
    def count(self) -> int:
        return len(self._waiting)

    def add(self, frames: int, resume: Resume) -> None:
        """Call ``resume`` once when so many frames are durable; not fewer than for the callback before."""
        self._waiting.pop(resume, None)
        self._waiting[resume] = frames

    def remove(self, resume: Resume) -> None:
        """Forget ``resume``: a log may be stalled for hours, and callers are cancelled meanwhile."""
        self._waiting.pop(resume, None)

    def release(self, frames: int | None) -> None:
        """Call what waited for at most ``frames`` durable frames; None: the log has ended, call all."""
        released: list[Resume] = []
        for resume, wanted in self._waiting.items():
            if frames is not None and wanted > frames:
                break
            released.append(resume)
        for resume in released:
            del self._waiting[resume]
        for resume in released:
            resume()
