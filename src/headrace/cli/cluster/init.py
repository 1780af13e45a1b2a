"""What ``headrace cluster init`` does: writes the facts of a new cluster."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from headrace.cli.cluster.cluster_session import in_session
from headrace.cli.cluster.command import LOG_DEFAULT
from headrace.cli.output import print_fields, print_json
from headrace.cluster.facts_node import CONTAINERS_MAX, Facts
from headrace.cluster.facts_store import create_facts
from headrace.data_directory.record import FORMAT
from headrace.errors import InvalidArgumentError
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.host_id import find_host_id
from headrace.storage.identity_format import SYSTEM_BYTES
from headrace.storage.providers.location import StorageLocation

_BUCKETS_MAX = 1024


def init_cluster(
    *, coordinator: str | None, containers: int, buckets: int, log: str | None, storage: str, as_json: bool
) -> None:
    """Let a cluster be born. Raises PreconditionError: it was born before; nothing changed."""
    facts = make_facts(containers, buckets, log, storage)
    in_session(coordinator, lambda session: create_facts(session, facts))
    made = {
        "system": facts.system,
        "containers": facts.containers,
        "buckets": facts.buckets,
        "log": facts.log,
        "storage": facts.storage,
        "format": facts.format,
        "host": facts.host,
    }
    if as_json:
        print_json(made)
    else:
        print_fields([*made.items()])


def make_facts(containers: int, buckets: int, log: str | None, storage: str) -> Facts:
    """Return the facts of a new cluster. Raises InvalidArgumentError."""
    if not 1 <= containers <= CONTAINERS_MAX:
        raise InvalidArgumentError(f"{containers} containers: 1 to {CONTAINERS_MAX}")
    if not 1 <= buckets <= _BUCKETS_MAX:
        raise InvalidArgumentError(f"{buckets} buckets: 1 to {_BUCKETS_MAX}")
    if log is None:
        log = f"file://{quote(str(Path(LOG_DEFAULT).absolute()))}"
    logs, chunks = StorageLocation.parse(log), StorageLocation.parse(storage)
    if logs.scheme != "file":
        raise InvalidArgumentError(f"logs are in files: --log file:///directory, not {log!r}")
    if chunks.scheme == "memory":
        raise InvalidArgumentError("stores of a cluster share their chunks: memory:// is of one process")
    if logs == chunks:
        raise InvalidArgumentError(f"logs and chunks cannot be in the same directory, {logs}")
    system = SystemEntropy().token(SYSTEM_BYTES).hex()
    return Facts(system, containers, buckets, str(logs), str(chunks), FORMAT, find_host_id())
