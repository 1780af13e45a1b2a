"""The controller as a part of its process: how it is, and what it counts."""

from __future__ import annotations

from headrace.controller.rest.metrics import CONTROLLER_METRICS
from headrace.controller.server import Controller
from headrace.web.process_parts import DOWN, STARTING, UP, Contributor


class ControllerPart:
    """What those who watch the process see of its controller."""

    metrics = CONTROLLER_METRICS

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def status(self) -> str:
        """UP, STARTING or DOWN."""
        controller = self._controller
        return UP if controller.is_ready() else DOWN if controller.is_stopped() else STARTING

    def statistics(self) -> dict[str, object]:
        """What the controller counts and holds now."""
        return {"controller": self._controller.statistics()}

    def contributors(self) -> list[Contributor]:
        """What answers calls, what works, and transactions: all as ready as the controller."""
        status = self.status()
        engine = self._controller.engine.statistics()
        work = {"streamsBusy": str(engine.streams_busy), "requestsWaiting": str(engine.requests_waiting)}
        numbers = {key: str(value) for key, value in self._controller.transactions.statistics().items()}
        return [
            Contributor("GRPCServer", status),
            Contributor("eventProcessor", status, work),
            Contributor("transactions", status, numbers),
        ]
