"""What protects a process from strangers: its users, the key of tokens, its certificates."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

from headrace.processes.exposure import find_exposure
from headrace.processes.process_config import ProcessConfig
from headrace.runtime.context import Runtime
from headrace.runtime.supervisor import Supervisor
from headrace.security.certificates import ServerCertificates
from headrace.security.gatekeeper import Gatekeeper, make_gatekeeper
from headrace.security.tls_transport import ContextSource
from headrace.security.token_key import keep_token_key, load_token_key, make_token_key
from headrace.security.tokens import TokenKey

_logger = logging.getLogger(__name__)


class Protection:
    """All of it, for the parts of one process to share. What the settings leave out is None."""

    def __init__(self, config: ProcessConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._exit = AsyncExitStack()
        self.gatekeeper: Gatekeeper | None = None
        self.token_key: TokenKey | None = None
        self.certificates: ServerCertificates | None = None
        """They are exchanged whenever their files change."""

    def load(self) -> None:
        """Load what the settings name; a process without good users, key and certificates touches nothing.

        :meth:`close` has to follow.

        Raises:
            InvalidArgumentError: one of them is bad.
        """
        auth, runtime = self._config.auth, self._runtime
        if auth.enabled:
            self.gatekeeper = make_gatekeeper(auth, runtime.threads, runtime.entropy)
            self._exit.push_async_callback(self.gatekeeper.close)
            if auth.token_key is not None:
                self.token_key = load_token_key(runtime.filesystem, auth.token_key)
        if self._config.tls.enabled:
            self.certificates = ServerCertificates(self._config.tls, runtime.clock)
            supervisor = Supervisor("certificates")
            self._exit.push_async_callback(supervisor.stop)
            supervisor.spawn("watch", self.certificates.watch())

    def complete(self, data_dir: str | None) -> None:
        """Take the key of the data directory, which is locked, if there are users and no key was given.

        ``data_dir``: None if there is none; then the key lasts as long as the process.

        Raises:
            InvalidArgumentError: its file is bad.
            OSError: it cannot be written.
        """
        if not self._config.auth.enabled or self.token_key is not None:
            return
        files, entropy = self._runtime.filesystem, self._runtime.entropy
        if data_dir is None:
            self.token_key = make_token_key(entropy)
        else:
            self.token_key = keep_token_key(files, data_dir, entropy)

    @property
    def tls(self) -> ContextSource | None:
        """What encrypts new connections."""
        return None if self.certificates is None else self.certificates.context

    def advise(self) -> None:
        """Say in the log what is missing, if others than this machine reach the process."""
        config = self._config
        missing = find_exposure(config.host, encrypts=config.tls.enabled, knows_users=config.auth.enabled)
        if missing is not None:
            _logger.warning("%s", missing)

    async def close(self) -> None:
        """End threads and tasks. Idempotent."""
        await self._exit.aclose()
