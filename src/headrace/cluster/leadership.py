"""Which controller leads, from the coordinator alone: of all candidates the one with the lowest number.

Each watches only the one in front of it, so that the end of a leader wakes one. Two may believe to lead, for
a moment: what a leader writes is written under a version.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.cluster.leader_node import (
    CANDIDATE,
    LEADER,
    Candidate,
    candidate_path,
    decode_candidate,
    encode_candidate,
)
from headrace.cluster.session_works import ask_until_known
from headrace.coordination.contract import Session
from headrace.errors import UnknownOutcomeError
from headrace.runtime.entropy import Entropy


class Leadership:
    """The candidature of one controller for the time of one session."""

    def __init__(
        self, session: Session, candidate: Candidate, entropy: Entropy, on_change: Callable[[], None]
    ) -> None:
        self._session = session
        self._candidate = candidate
        self._entropy = entropy
        self._on_change = on_change
        self._elected = False

    @property
    def is_leader(self) -> bool:
        """Whether this controller leads now, as far as it can know."""
        return self._elected and self._session.lease.is_valid

    async def run(self) -> None:
        """Be a candidate, and lead when it is one's turn.

        Raises:
            SessionExpiredError: the session is over.
        """
        while True:
            name = await self._stand()
            while (ahead := await self._ahead_of(name)) is not None:
                if not ahead:
                    self._elected = True
                    self._on_change()
                await self._wait_gone(ahead or name)
                self._elected = False

    async def _stand(self) -> str:
        """Become a candidate; return the name of the node."""
        data = encode_candidate(self._candidate)
        found = ""

        async def stand() -> None:
            nonlocal found
            found = await self._find_mine()  # made before the answer was lost
            if not found:
                path = await self._session.create(CANDIDATE, data, ephemeral=True, sequential=True)
                found = path.removeprefix(f"{LEADER}/")

        while not found:
            await ask_until_known(self._entropy, stand)
        return found

    async def _find_mine(self) -> str:
        for name in await self._session.children(LEADER):
            node = await self._session.read(candidate_path(name))
            if node is not None and decode_candidate(node.data) == self._candidate:
                return name
        return ""

    async def _ahead_of(self, name: str) -> str | None:
        """Return the candidate in front of this one, "" if it is the first; None: its node is gone."""
        names: list[str] | None = None

        async def read() -> None:
            nonlocal names
            names = await self._session.children(LEADER)

        while names is None:
            await ask_until_known(self._entropy, read)
        if name not in names:
            return None
        return max((each for each in names if each < name), default="")

    async def _wait_gone(self, name: str) -> None:
        async for _ in self._session.watch(candidate_path(name)):
            try:
                if await self._session.read(candidate_path(name)) is None:
                    return
            except UnknownOutcomeError:
                return  # it is looked at again
