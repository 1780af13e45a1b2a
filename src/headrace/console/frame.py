"""What all pages have in common: templates that escape, what the page may do, who looks at it."""

from __future__ import annotations

from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from headrace import __version__
from headrace.console.quantities import bytes_text, period_text, rate_text, time_text
from headrace.web.origin_rules import CONSOLE_PATH

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""A page runs the code of a file of ours, asks nobody else, and stands in no frame."""

_KINDS: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PLACES: Final = (
    ("Overview", f"{CONSOLE_PATH}/"),
    ("Streams", f"{CONSOLE_PATH}/streams"),
    ("Reader groups", f"{CONSOLE_PATH}/groups"),
    ("Health", f"{CONSOLE_PATH}/health"),
)


def _load_files() -> dict[str, bytes]:
    folder = files("headrace.console") / "static"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.split(".")[-1] in _KINDS}


class Frame:
    """Makes pages of templates, and answers for the files that these name."""

    def __init__(self) -> None:
        self._files = _load_files()
        digest = blake2b(b"".join(self._files[name] for name in sorted(self._files)), digest_size=6)
        self._stem = f"{CONSOLE_PATH}/static/{digest.hexdigest()}"
        self._templates = Environment(
            loader=PackageLoader("headrace.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals |= {
            "console": CONSOLE_PATH,
            "static": self._stem,
            "places": _PLACES,
            "version": __version__,
        }
        self._templates.filters |= {
            "bytes": bytes_text,
            "rate": rate_text,
            "period": period_text,
            "time": time_text,
            "count": lambda number: f"{number:,}",
        }

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page for who asks."""
        caller = getattr(request.state, "caller", None)
        html = self._templates.get_template(template).render(
            user="" if caller is None else caller.name,
            token=getattr(request.state, "token", ""),
            path=request.url.path,
            asked=request.query_params,
            **values,
        )
        return HTMLResponse(html, status, _HEADERS)

    async def file(self, request: Request) -> Response:
        """Answer for a file of the frame. Its address changes with its content."""
        name = request.path_params["name"]
        content = self._files.get(name)
        if content is None:
            return Response(status_code=404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, headers=headers, media_type=_KINDS[name.rpartition(".")[2]])
