"""The check of ownership before an append is refused for an offset beyond the end of its segment.

Appends are accepted or refused without waiting, and the owner of a log cannot be read without waiting. So the
connection waits, as for admission, until the answer is there, and hands its append over again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headrace.errors import ContainerOfflineError, HeadraceError


class OwnerQuestion:
    """One check, for an append at ``offset`` that was beyond the end of its segment when the check began.

    The append may be refused if the answer has no error: this process was still the owner.
    """

    __slots__ = ("_resumes", "error", "is_answered", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.is_answered = False
        self.error: HeadraceError | None = None
        """Why the append may not be refused for its offset."""
        self._resumes: list[Callable[[], None]] = []

    async def ask(self, check_owner: Callable[[], Awaitable[None]]) -> None:
        """Check, then call all callbacks that wait for the answer."""
        error: HeadraceError | None = ContainerOfflineError("the container stops")
        try:
            await check_owner()
            error = None
        except HeadraceError as refusal:
            error = refusal
        finally:
            self.answer(error)

    def answer(self, error: HeadraceError | None) -> None:
        self.is_answered, self.error = True, error
        resumes, self._resumes = self._resumes, []
        for resume in resumes:
            resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when the answer is there. It is not there yet."""
        self._resumes.append(resume)

    def stop_waiting(self, resume: Callable[[], None]) -> None:
        if resume in self._resumes:
            self._resumes.remove(resume)
