"""Health by the REST interface: liveness and readiness. Source: protocol, "Health"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.web.answers import answer
from headrace.web.models import HealthStatus
from headrace.web.process_parts import UP, Contributor
from headrace.web.refusals import Handler, refusal

_SHOWN_CHARS: Final = 40
_OK: Final = 200
_UNAVAILABLE: Final = 503

_VIEWS: Final[dict[str, Callable[[Contributor], Any]]] = {
    "readiness": lambda part: part.ready,
    "liveness": lambda part: part.alive,
    "status": lambda part: part.status,
    "details": lambda part: part.details,
}


def health_handlers(
    find_contributors: Callable[[], Mapping[str, Contributor]],
    find_status: Callable[[], str],
    *,
    with_details: bool = True,
) -> dict[str, Handler]:
    """Return what answers a GET of each path of health; of two that fit, the first counts.

    Args:
        find_contributors: what has a state of its own, by name.
        find_status: the state of the process, which is alive whatever these are.
        with_details: whether the documents that everybody may ask for have them, as the ``details`` paths do.
    """

    def find(name: str | None) -> tuple[Contributor, dict[str, Contributor]] | None:
        parts = find_contributors()
        if name is not None:
            return (parts[name], {}) if name in parts else None
        return _whole(parts, find_status()), dict(parts)

    def unknown(request: Request) -> Response:
        known = ", ".join(find_contributors())
        return refusal(
            404, f"there is no part {request.path_params['part'][:_SHOWN_CHARS]!r}; there are {known}"
        )

    def whole_if(holds: Callable[[Contributor], bool]) -> Handler:
        async def show(request: Request) -> Response:
            found = find(request.path_params.get("part"))
            if found is None:
                return unknown(request)
            part, children = found
            parts = {name: _describe(child, with_details=with_details) for name, child in children.items()}
            whole = _describe(part, parts, with_details=with_details)
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


def describe_all(parts: Mapping[str, Contributor]) -> HealthStatus:
    """Return the document of what consists of ``parts``, and is up whatever they are."""
    children = {name: _describe(each, with_details=True) for name, each in parts.items()}
    return _describe(_whole(parts, UP), children, with_details=True)


def _whole(parts: Mapping[str, Contributor], status: str) -> Contributor:
    """Return what is ready if all ``parts`` are, and names those that are not."""
    waiting = [
        f"{part.name} ({part.hindered})" if part.hindered else part.name
        for part in parts.values()
        if not part.ready
    ]
    details = {"notReady": ", ".join(waiting)} if waiting else {}
    return Contributor("", status, details, not waiting)


def _describe(
    part: Contributor, children: dict[str, HealthStatus] | None = None, *, with_details: bool
) -> HealthStatus:
    details = part.details if with_details else {}
    return HealthStatus(part.name, part.status, part.ready, part.alive, details, children or {})
