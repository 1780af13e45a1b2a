"""The way into the console: nothing of it is imported before somebody asks for its first page."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, Final

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.controller.server import Controller
from headrace.security.access import Gatekeeper
from headrace.web.asked_stores import AskedStores
from headrace.web.origin_rules import CONSOLE_PATH

_PAGES: Final = "headrace.console.application"


class ConsoleEntrance:
    """An application that becomes the console with its first request."""

    def __init__(
        self,
        controller: Controller,
        stores: AskedStores | None,
        gatekeeper: Gatekeeper | None,
        *,
        encrypted: bool,
    ) -> None:
        """``gatekeeper``: knows who signs in; None: everybody may do everything. ``encrypted``: browsers
        reach the port by TLS only, and are to send its cookie by nothing else.
        """
        self._arguments: tuple[Any, ...] = (controller, stores, gatekeeper)
        self._encrypted = encrypted
        self._console: ASGIApp | None = None
        self._loading = asyncio.Lock()

    def routes(self) -> list[BaseRoute]:
        """Return what leads here."""
        return [Route(CONSOLE_PATH, self), Mount(CONSOLE_PATH, self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._loading:
            console = self._console = self._console or await self._load()
        # Its pages are routed by whole paths.
        await console({**scope, "root_path": scope.get("app_root_path", "")}, receive, send)

    async def _load(self) -> ASGIApp:
        """Import it in a thread, so that appends do not wait."""
        loop = asyncio.get_running_loop()
        pages = await loop.run_in_executor(None, importlib.import_module, _PAGES)
        application: ASGIApp = pages.console_application(*self._arguments, encrypted=self._encrypted)
        return application
