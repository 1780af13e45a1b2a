"""What ``headrace cluster init`` does: writes the facts of a new cluster."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from headrace.cli.cluster.cluster_session import find_location, in_session
from headrace.cli.cluster.command import BUCKETS_DEFAULT, CONTAINERS_DEFAULT, LOG_DEFAULT
from headrace.cli.output import print_fields, print_json
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts
from headrace.cluster.status import facts_document
from headrace.data_directory.birth_of_cluster import facts_of_directory, found_cluster
from headrace.data_directory.log_place import parse_log
from headrace.data_directory.record import FORMAT
from headrace.data_directory.shared_directory import is_in_files
from headrace.errors import InvalidArgumentError
from headrace.limits import CONTAINERS_MAX
from headrace.runtime.context import system_runtime
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.host_id import find_host_id
from headrace.storage.identity_format import SYSTEM_BYTES
from headrace.storage.providers.location import StorageLocation

_BUCKETS_MAX = 1024


def init_cluster(
    *,
    coordinator: str | None,
    containers: int | None,
    buckets: int | None,
    log: str | None,
    storage: str | None,
    from_data_dir: str | None,
    as_json: bool,
) -> None:
    """Let a cluster be born. Raises PreconditionError: it was born before; nothing changed."""
    if from_data_dir is not None:
        told = {"containers": containers, "buckets": buckets, "log": log, "storage": storage}
        if more := next((name for name, value in told.items() if value is not None), ""):
            raise InvalidArgumentError(f"--{more} is as --from-data-dir has it: leave it out")
        facts = _init_from(from_data_dir, coordinator)
    elif storage is None:
        raise InvalidArgumentError(
            "no store of the chunks was named: --storage URI, or --from-data-dir DIR of a standalone server"
        )
    else:
        facts = make_facts(
            CONTAINERS_DEFAULT if containers is None else containers,
            BUCKETS_DEFAULT if buckets is None else buckets,
            log,
            storage,
        )
        in_session(coordinator, lambda session: create_facts(session, facts))
    made = facts_document(facts)
    if as_json:
        print_json(made)
    else:
        print_fields([*made.items()])


def _init_from(directory: str, coordinator: str | None) -> Facts:
    """Let a cluster be born that goes on with the data of a standalone server."""
    where, runtime = find_location(coordinator).place, system_runtime()
    with facts_of_directory(directory, runtime) as facts:
        files = runtime.filesystem
        return in_session(coordinator, lambda each: found_cluster(each, facts, directory, where, files))


def check_containers(count: int) -> None:
    """Raises InvalidArgumentError: no store could serve a cluster of so many."""
    if not 1 <= count <= CONTAINERS_MAX:
        raise InvalidArgumentError(
            f"{count} containers: a cluster has 1 to {CONTAINERS_MAX}, and nothing was made"
        )


def make_facts(containers: int, buckets: int, log: str | None, storage: str) -> Facts:
    """Return the facts of a new cluster. Raises InvalidArgumentError."""
    check_containers(containers)
    if not 1 <= buckets <= _BUCKETS_MAX:
        raise InvalidArgumentError(f"{buckets} buckets: 1 to {_BUCKETS_MAX}")
    if log is None:
        log = f"file://{quote(str(Path(LOG_DEFAULT).absolute()))}"
    logs = StorageLocation.parse(log) if is_in_files(log) else parse_log(log)
    chunks = StorageLocation.parse(storage)
    if logs.scheme != "file" and chunks.scheme == "file":
        raise InvalidArgumentError(
            f"stores on other machines would not find the chunks in {chunks}: with a log that is not in "
            "files, name a bucket for them, or hdfs://"
        )
    if chunks.scheme == "memory":
        raise InvalidArgumentError("stores of a cluster share their chunks: memory:// is of one process")
    if logs == chunks:
        raise InvalidArgumentError(f"logs and chunks cannot be in the same directory, {logs}")
    host = find_host_id() if logs.scheme == "file" else ""
    system = SystemEntropy().token(SYSTEM_BYTES).hex()
    return Facts(system, containers, buckets, str(logs), str(chunks), FORMAT, host)
