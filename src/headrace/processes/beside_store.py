"""The segment store of this process, as REST asks it, and as other processes of its cluster do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from headrace.errors import ContainerOfflineError, InvalidArgumentError
from headrace.model.store_question import About, decode_question
from headrace.processes.wired_store import WiredStore
from headrace.runtime.statistics import plain_values
from headrace.web.process_parts import Contributor, ProcessPart
from headrace.wire.commands.internal import ANSWER_BYTES_MAX


class BesideStore:
    """See ``AskedStores``. ``part`` says what is shown of it; None: all there is."""

    def __init__(self, wired: WiredStore, part: ProcessPart | None = None) -> None:
        self._wired = wired
        self._part = part or wired

    async def statistics(self, container: int | None = None) -> dict[str, Any]:
        found = dict(self._part.statistics())
        if container is not None:
            containers = found["containers"]
            assert isinstance(containers, dict)
            found["containers"] = {n: each for n, each in containers.items() if n == container}
        plain: dict[str, Any] = plain_values(found)
        return plain

    async def health(self) -> Sequence[Contributor]:
        return self._part.contributors()

    async def purge(self, segments: Sequence[str]) -> None:
        found = await self._wired.store.purge(segments)
        for error in found.values():
            if error is not None:
                raise error
        if len(found) < self._wired.registry.container_count:
            raise ContainerOfflineError("not all containers are running here now")

    async def optimisers(self) -> dict[str, Any]:
        return self._wired.optimisers()

    async def pause_optimisers(self, *, paused: bool) -> None:
        self._wired.pause_optimisers(paused=paused)

    async def answer(self, question: bytes) -> bytes:
        """Answer another process. Raises InvalidArgumentError: not that, or the answer is too large."""
        asked = decode_question(question)
        found: object = None
        match asked.about:
            case About.STATISTICS:
                found = await self.statistics(asked.container)
            case About.HEALTH:
                found = [asdict(each) for each in await self.health()]
            case About.OPTIMISERS:
                found = await self.optimisers()
            case About.PAUSE:
                await self.pause_optimisers(paused=asked.paused)
        encoded = json.dumps(found).encode()
        if len(encoded) > ANSWER_BYTES_MAX:
            raise InvalidArgumentError(
                f"an answer of {len(encoded)} bytes is larger than the limit of {ANSWER_BYTES_MAX}: ask "
                "about one container"
            )
        return encoded
