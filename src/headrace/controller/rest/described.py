"""``GET /openapi.json`` and ``GET /docs``: what the REST interface can do, for programs and for people."""

from __future__ import annotations

from functools import cache

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from headrace import __version__
from headrace.controller.rest.openapi import Document, openapi_document
from headrace.web.answers import answer
from headrace.web.docs_page import STYLE, STYLE_PATH, docs_page
from headrace.web.refusals import Handler


@cache
def _document() -> Document:
    return openapi_document(__version__)


def description_handlers() -> dict[str, Handler]:
    """Return what answers a GET of each of these paths."""

    async def show_document(_: Request) -> Response:
        return answer(_document())

    async def show_page(_: Request) -> Response:
        return HTMLResponse(docs_page(_document()))

    async def show_style(_: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    return {"/openapi.json": show_document, "/docs": show_page, STYLE_PATH: show_style}
