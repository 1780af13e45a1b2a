"""Health by the REST interface: liveness and readiness. Source: protocol, "Health"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.controller.rest.models import HealthStatus
from headrace.controller.server import Controller
from headrace.web.answers import answer
from headrace.web.process_parts import ServerInside
from headrace.web.refusals import Handler, refusal

_SHOWN_CHARS: Final = 40
_OK: Final = 200
_UNAVAILABLE: Final = 503

UP, STARTING, DOWN = "UP", "STARTING", "DOWN"


@dataclass(slots=True)
class Contributor:
    """The process, or one part that has a state of its own.

    The process is ready if all its parts are. It is alive without them: they start again by themselves, or
    stay offline because a restart could destroy evidence.
    """

    name: str
    status: str
    details: dict[str, str] = field(default_factory=dict)
    has_ready_parts: bool = True
    hindered: str = ""
    """What it cannot do now, and why; empty if there is nothing."""

    @property
    def ready(self) -> bool:
        return self.status == UP and self.has_ready_parts and not self.hindered

    @property
    def alive(self) -> bool:
        return self.status in {UP, STARTING}

    def describe(
        self, children: dict[str, HealthStatus] | None = None, *, with_details: bool = True
    ) -> HealthStatus:
        """Return the answer about it, with those about its parts."""
        details = self.details if with_details else {}
        return HealthStatus(self.name, self.status, self.ready, self.alive, details, children or {})


def contributors_of(controller: Controller, inside: ServerInside | None = None) -> dict[str, Contributor]:
    """Return the state of each part by name: of the controller, long-term storage and each container."""
    status = UP if controller.is_ready() else DOWN if controller.is_stopped() else STARTING
    numbers = {key: str(value) for key, value in controller.transactions.statistics().items()}
    engine = controller.engine.statistics()
    work = {"streamsBusy": str(engine.streams_busy), "requestsWaiting": str(engine.requests_waiting)}
    containers = {
        f"container-{found.container_id}": Contributor(
            f"container-{found.container_id}",
            UP if found.online else DOWN,
            {
                "restarts": str(found.restarts),
                "lastFailure": found.last_failure,
                "waitsFor": found.waits_for,
            },
            hindered=f"waits for {found.waits_for}" if found.waits_for else "",
        )
        for found in (inside.container_health() if inside is not None else ())
    }
    refusals = {} if inside is None else inside.storage_refusals()
    hindered = f"refuses {', '.join(refusals)}: {next(iter(refusals.values()))}" if refusals else ""
    storage = Contributor("longTermStorage", UP, refusals, hindered=hindered)
    return {
        "GRPCServer": Contributor("GRPCServer", status),
        "eventProcessor": Contributor("eventProcessor", status, work),
        "transactions": Contributor("transactions", status, numbers),
        **({} if inside is None else {storage.name: storage}),
        **containers,
    }


_VIEWS: Final[dict[str, Callable[[Contributor], Any]]] = {
    "readiness": lambda part: part.ready,
    "liveness": lambda part: part.alive,
    "status": lambda part: part.status,
    "details": lambda part: part.details,
}


def health_handlers(
    controller: Controller, inside: ServerInside | None = None, *, with_details: bool = True
) -> dict[str, Handler]:
    """Return what answers a GET of each path of health; of two that fit, the first counts.

    ``with_details``: whether the documents that everybody may ask for have them, as the ``details`` paths do.
    """

    def find(name: str | None) -> tuple[Contributor, dict[str, Contributor]] | None:
        parts = contributors_of(controller, inside)
        if name is not None:
            return (parts[name], {}) if name in parts else None
        waiting = [
            f"{part.name} ({part.hindered})" if part.hindered else part.name
            for part in parts.values()
            if not part.ready
        ]
        details = {"notReady": ", ".join(waiting)} if waiting else {}
        return Contributor("", parts["GRPCServer"].status, details, not waiting), parts

    def unknown(request: Request) -> Response:
        known = ", ".join(contributors_of(controller, inside))
        return refusal(
            404, f"there is no part {request.path_params['part'][:_SHOWN_CHARS]!r}; there are {known}"
        )

    def whole_if(holds: Callable[[Contributor], bool]) -> Handler:
        async def show(request: Request) -> Response:
            found = find(request.path_params.get("part"))
            if found is None:
                return unknown(request)
            part, children = found
            parts = {name: child.describe(with_details=with_details) for name, child in children.items()}
            whole = part.describe(parts, with_details=with_details)
            return answer(whole, _OK if holds(part) else _UNAVAILABLE)

        return show

    def view_of(view: Callable[[Contributor], Any]) -> Handler:
        async def show(request: Request) -> Response:
            found = find(request.path_params.get("part"))
            return unknown(request) if found is None else answer(view(found[0]))

        return show

    handlers: dict[str, Handler] = {}
    for name, view in _VIEWS.items():
        handlers[f"/v1/health/{name}"] = handlers[f"/v1/health/{name}/{{part}}"] = view_of(view)
    whole = whole_if(lambda _: True)
    handlers |= {"/v1/health": whole, "/v1/health/{part}": whole, "/health": whole}
    # The status of these tells, for probes that look at nothing else.
    return handlers | {"/ready": whole_if(_VIEWS["readiness"]), "/live": whole_if(_VIEWS["liveness"])}
