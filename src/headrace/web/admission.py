"""What the caller of a request lacks: asked before anything that tells whether something exists."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headrace.security.access import Caller, Gatekeeper, admit, may_read
from headrace.web.refusals import Handler
from headrace.web.rules import Rules


def admitting(gatekeeper: Gatekeeper | None, rules: Rules, verb: str, path: str, handler: Handler) -> Handler:
    """Return ``handler`` behind the rule of the request; as it is without a ``gatekeeper``."""
    if gatekeeper is None:
        return handler
    rule = rules.get((verb, path))

    async def handle(request: Request) -> Response:
        headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in request.headers.raw]
        need = None if rule is None else rule(request.path_params)
        request.state.caller = await admit(gatekeeper, headers, f"{verb} {path}", need)
        return await handler(request)

    return handle


def shows(request: Request, resource: str) -> bool:
    """Tell whether listings show ``resource`` to the caller."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return may_read(caller, resource)
