"""How each container is in this process, and what this process knows of its claim. Pure.

A claim is known from the last read of all claims, unless something has happened since that read was begun: a
write of this process, of which the outcome may be unknown, or a sign that another one owns the log. A *mark*
is such a moment, a number that grows with the reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.cluster.observed import Local, ObservedClaim, Phase, Unsure

_PAUSE_S: Final = 0.25
_PAUSE_MAX_S: Final = 4.0
_FENCED_PAUSE_S: Final = 0.1
"""Two stores with maps of different age do not fence each other all the time."""


class LocalContainers:
    """All containers of the cluster, of which some are here."""

    def __init__(self, containers: int) -> None:
        self._locals = [Local()] * containers
        self._lives = [0] * containers
        self._known: dict[int, tuple[int, ObservedClaim]] = {}
        """By container: a mark, and what is known of the claim until something newer was read."""

    def __getitem__(self, container_id: int) -> Local:
        return self._locals[container_id]

    def here(self) -> list[int]:
        """Return the containers that use their log here, or may."""
        ended = {Phase.NONE, Phase.FENCED, Phase.FAILED}
        return [number for number, local in enumerate(self._locals) if local.phase not in ended]

    def failures(self) -> dict[int, int]:
        """Return how often each container that failed here has."""
        return {number: local.failures for number, local in enumerate(self._locals) if local.failures}

    def life(self, container_id: int) -> int:
        """Return the number of this life here: what belongs to a former one comes too late."""
        return self._lives[container_id]

    # ---- claims

    def known_claim(self, container_id: int) -> tuple[int, ObservedClaim]:
        """Return what is known unless something newer than the mark was read."""
        return self._known.get(container_id, (0, Unsure.UNKNOWN))

    def learn_claim(self, container_id: int, mark: int, claim: ObservedClaim) -> None:
        """After a write, or instead of one: this is known until something newer is read."""
        self._known[container_id] = (mark, claim)

    def wait_for_claim(self, container_id: int, waits: bool, now_s: float) -> None:
        """Note whether it is wanted here while another store has the claim."""
        local = self._locals[container_id]
        if waits == (local.waits_since_s is None):
            self._locals[container_id] = replace(local, waits_since_s=now_s if waits else None)

    # ---- its life

    def on_given(self, container_id: int) -> int:
        """It starts; return the number of this life."""
        self._lives[container_id] += 1
        self._set(container_id, Phase.STARTING)
        return self._lives[container_id]

    def on_recovered(self, container_id: int, container_epoch: int) -> None:
        self._set(container_id, Phase.RECOVERED, container_epoch)

    def on_serving(self, container_id: int) -> None:
        self._set(container_id, Phase.SERVING, self._locals[container_id].container_epoch)

    def on_silent(self, container_id: int) -> None:
        """It answers nothing until it is claimed again."""
        self._set(container_id, Phase.RECOVERED, self._locals[container_id].container_epoch)

    def on_taken(self, container_id: int) -> None:
        self._set(container_id, Phase.ENDING)

    def on_ended(self, container_id: int) -> None:
        self._set(container_id, Phase.NONE)

    def on_failed(self, container_id: int, now_s: float, *, starts_again: bool = False) -> None:
        """It has failed. ``starts_again``: by itself; else it has ended here."""
        local = self._locals[container_id]
        pause_s = min(_PAUSE_S * 2.0 ** min(local.failures, 16), _PAUSE_MAX_S)
        phase = Phase.STARTING if starts_again else Phase.FAILED
        self._locals[container_id] = replace(
            local, phase=phase, failures=local.failures + 1, retry_at_s=now_s + pause_s
        )

    def on_fenced(self, container_id: int, mark: int, now_s: float) -> None:
        """Another process has opened its log: nothing that was read before counts."""
        local = self._locals[container_id]
        self._locals[container_id] = replace(local, phase=Phase.FENCED, retry_at_s=now_s + _FENCED_PAUSE_S)
        self.learn_claim(container_id, mark, Unsure.UNKNOWN)

    def on_reported(self, failures: dict[int, int]) -> None:
        """Other members can know of these."""
        for container_id, count in failures.items():
            local = self._locals[container_id]
            self._locals[container_id] = replace(local, reported=max(local.reported, count))

    def _set(self, container_id: int, phase: Phase, container_epoch: int = 0) -> None:
        local = self._locals[container_id]
        self._locals[container_id] = replace(local, phase=phase, container_epoch=container_epoch)
