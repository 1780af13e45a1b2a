"""What ``headrace standalone`` does."""

from __future__ import annotations

import os
from typing import Any, Final

from headrace.runtime import logs
from headrace.runtime.client_variables import CLIENT_VARIABLES

_SETTINGS: Final = {"users": "auth.users", "tls_cert": "tls.cert", "tls_key": "tls.key"}
"""Those with another name than their option."""


def run(*, log_level: str, log_format: logs.LogFormat, debug: bool, config: str | None, **given: Any) -> None:
    """Serve; ``given`` are settings by the names of their options, None: not given."""
    from headrace.runtime.collector import collect_rarely

    collect_rarely()
    # Else gRPC has lines of its own on stderr, not of our format, one for each client that does not encrypt.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with logs.shown(level="debug" if debug else log_level, log_format=log_format):
        _serve(config, given)


def _serve(file: str | None, given: dict[str, Any]) -> None:
    from headrace.processes.config import StandaloneConfig
    from headrace.runtime import settings_sources

    config = settings_sources.load(
        StandaloneConfig,
        file=file,
        environment=os.environ,
        overrides={_SETTINGS.get(name, name): value for name, value in given.items()},
        other_variables=CLIENT_VARIABLES,
    )
    from headrace.processes import standalone as server

    server.run(config)
