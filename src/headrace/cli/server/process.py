"""What the verbs that start a process of the server do: settings, log lines, and the process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from headrace.coordination.location import CoordinatorLocation
from headrace.runtime import logs
from headrace.runtime.client_variables import CLIENT_VARIABLES

C = TypeVar("C")

_SETTINGS: Final = {"users": "auth.users", "tls_cert": "tls.cert", "tls_key": "tls.key"}
"""Those with another name than their option."""


def run_standalone(
    *, log_level: str, log_format: logs.LogFormat, debug: bool, config: str | None, **given: Any
) -> None:
    """Serve; ``given`` are settings by the names of their options, None: not given."""
    with _shown(log_level, log_format, debug=debug):
        from headrace.processes.config import StandaloneConfig

        settings = _load(StandaloneConfig, config, given)
        from headrace.processes import standalone

        standalone.run(settings)


def run_segmentstore(
    *,
    coordinator: CoordinatorLocation,
    log_level: str,
    log_format: logs.LogFormat,
    debug: bool,
    config: str | None,
    **given: Any,
) -> None:
    """Serve; ``given`` are settings by the names of their options, None: not given."""
    with _shown(log_level, log_format, debug=debug):
        if coordinator.scheme == "memory":
            from headrace.processes.config import SegmentStoreConfig

            settings = _load(SegmentStoreConfig, config, given)
            from headrace.processes import store_server

            store_server.run(settings)
        else:
            from headrace.processes.cluster_store_config import ClusterStoreConfig

            of_cluster = _load(ClusterStoreConfig, config, given)
            from headrace.processes import cluster_store

            cluster_store.run(of_cluster, coordinator)


def run_controller(
    *, log_level: str, log_format: logs.LogFormat, debug: bool, config: str | None, **given: Any
) -> None:
    """Serve; ``given`` are settings by the names of their options, None: not given."""
    with _shown(log_level, log_format, debug=debug):
        from headrace.processes.controller_config import ControllerServerConfig

        settings = _load(ControllerServerConfig, config, given)
        from headrace.processes import controller_server

        controller_server.run(settings)


@contextmanager
def _shown(level: str, log_format: logs.LogFormat, *, debug: bool) -> Iterator[None]:
    from headrace.runtime.collector import collect_rarely

    collect_rarely()
    # Else gRPC has lines of its own on stderr, not of our format, one for each client that does not encrypt.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with logs.shown(level="debug" if debug else level, log_format=log_format):
        yield


def _load(kind: type[C], file: str | None, given: Mapping[str, Any]) -> C:
    from headrace.runtime import settings_sources

    return settings_sources.load(
        kind,
        file=file,
        environment=os.environ,
        overrides={_SETTINGS.get(name, name): value for name, value in given.items()},
        other_variables=CLIENT_VARIABLES,
    )
