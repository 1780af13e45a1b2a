"""The port at which a process is asked by HTTP: how it is, what it counts, and whatever its parts answer."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable

from headrace.model.endpoint import Endpoint
from headrace.processes.port_errors import naming_port
from headrace.processes.process_config import ProcessConfig
from headrace.processes.protection import Protection
from headrace.web.server import Application, WebServer

_logger = logging.getLogger(__name__)


class WebPort:
    """One listener. Started once, stopped once.

    ``protection`` is loaded before the start. ``make_application`` is called with the names of hosts under
    which it is asked, in a thread, when somebody asks: it imports there what it needs.
    """

    def __init__(
        self,
        config: ProcessConfig,
        protection: Protection,
        make_application: Callable[[Iterable[str]], Application],
    ) -> None:
        self._config = config
        self._protection = protection
        self._make_application = make_application
        self._web: WebServer | None = None
        self._port = config.rest_port

    @property
    def endpoint(self) -> Endpoint:
        """Where it is asked."""
        return self._config.advertised("rest", self._port)

    async def start(self) -> None:
        """Answer requests.

        Raises:
            OSError: the address is taken, or none of this machine; the message names the option to change.
        """
        config, tls = self._config, self._protection.tls
        names = (*config.rest_names(), socket.gethostname())
        self._web = WebServer(lambda: self._make_application(names), config.host, config.rest_port, tls)
        with naming_port("rest_port", config.host, config.rest_port):
            self._port = await self._web.start()
        self._web.serve()
        _logger.info("health is served at %s://%s", "http" if tls is None else "https", self.endpoint)

    async def stop(self) -> None:
        """Take no more requests, give active ones a second, stop. Idempotent."""
        if self._web is not None:
            await self._web.stop()
