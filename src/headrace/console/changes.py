"""What the forms of a stream's page change. What cannot be undone asks for the name of the stream."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headrace.console.forms import fields_of
from headrace.console.signing_in import SigningIn
from headrace.controller.server import Controller
from headrace.controller.workflows.scale_stream import request_scale
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import split_evenly
from headrace.model.segment_id import parse_segment_id
from headrace.model.stream_cut import StreamCut
from headrace.web.origin_rules import CONSOLE_PATH

_SEE_OTHER: Final = 303
_PIECES_MAX: Final = 64
_LOOKS, _LOOK_S = 100, 0.02
"""Whether a scale is done, so that the page shows it. One that takes longer goes on."""


class Changes:
    """Carries them out, by the same code as REST and gRPC."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def change(self, request: Request) -> Response:
        """Do what a form asks, and show the stream, or what is left.

        Raises:
            PermissionDeniedError: it is no form of this session.
            InvalidArgumentError: the name is not that of the stream, or a field is none.
        """
        scope, name = request.path_params["scope"], request.path_params["stream"]
        fields = await fields_of(request)
        SigningIn.check_form(fields.get("token", ""), request.state.token)
        asked = fields.get("change", "")
        if asked != "split" and fields.get("name", "") != f"{scope}/{name}":
            raise InvalidArgumentError(
                f"nothing was done: type {scope}/{name} to {asked or 'change'} this stream"
            )
        streams = self._controller.streams
        page = f"{CONSOLE_PATH}/streams/{quote(scope)}/{quote(name)}"
        match asked:
            case "split":
                await self._split(scope, name, fields)
            case "truncate":
                cut = StreamCut.from_text(fields.get("cut", "").strip())
                if (cut.scope, cut.stream) != (scope, name):
                    raise InvalidArgumentError(f"nothing was done: this is no cut of {scope}/{name}")
                await streams.truncate_any(scope, name, cut.offsets)
            case "seal":
                await streams.seal(scope, name)
            case "delete":
                await streams.delete(scope, name)
                page = f"{CONSOLE_PATH}/streams"
            case _:
                raise InvalidArgumentError("nothing was done: this is no change that a stream knows")
        return RedirectResponse(page, _SEE_OTHER)

    async def _split(self, scope: str, name: str, fields: dict[str, str]) -> None:
        """Replace one segment by equal pieces."""
        context = self._controller.context
        stream = await context.directory.get(scope, name)
        wanted, pieces = parse_segment_id(fields.get("segment", "")), fields.get("pieces", "2")
        if not (pieces.isascii() and pieces.isdigit() and 2 <= int(pieces[:4]) <= _PIECES_MAX):
            raise InvalidArgumentError(f"nothing was done: a segment is split into 2 to {_PIECES_MAX}")
        segment = stream.row.epoch.find(wanted)
        if segment is None:
            raise InvalidArgumentError("nothing was done: this segment is not active any more")
        ranges = split_evenly(segment.key_range, int(pieces))
        before, _ = await request_scale(context, stream, [wanted], ranges, context.clock.now_ms())
        for _ in range(_LOOKS):
            if (await stream.refresh()).epoch.epoch > before:
                return
            await asyncio.sleep(_LOOK_S)
