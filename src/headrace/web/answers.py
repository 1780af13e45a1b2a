"""Answers of the REST interface, as JSON."""

from __future__ import annotations

from typing import Any

from msgspec.json import encode
from starlette.responses import Response


def answer(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return the response with a model, or with what JSON has."""
    return Response(encode(document), status, headers, "application/json")
