"""Who owns the container, asked for an append that is about to be refused because its offset is wrong.

Appends are accepted or refused at once, and who owns a log cannot be known at once. So the connection waits,
as if there were no room, until there is an answer, and hands its append over again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headrace.errors import ContainerOfflineError, HeadraceError


class OwnerQuestion:
    """One question, for an append at ``offset`` that lay beyond the end of its segment when it was asked.

    That was so for the owner of the container, and the append may be refused, if the answer has no error.
    """

    __slots__ = ("_resumes", "error", "is_answered", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.is_answered = False
        self.error: HeadraceError | None = None
        """Why the append may not be refused for its offset."""
        self._resumes: list[Callable[[], None]] = []

    async def ask(self, check_owner: Callable[[], Awaitable[None]]) -> None:
        """Ask, and resume all that wait for the answer."""
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
        """Call ``resume`` once there is an answer. There is none yet."""
        self._resumes.append(resume)

    def stop_waiting(self, resume: Callable[[], None]) -> None:
        if resume in self._resumes:
            self._resumes.remove(resume)
