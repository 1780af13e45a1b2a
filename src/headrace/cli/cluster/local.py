"""What ``headrace cluster local`` does: runs a whole cluster on this machine, and says how to reach it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from headrace.cli.cluster.cluster_session import connect
from headrace.cli.cluster.init import check_containers, make_facts
from headrace.cli.output import print_fields, print_line, printable, progress
from headrace.errors import UnsupportedError
from headrace.local_cluster.directory import ClusterDirectory
from headrace.local_cluster.local_cluster import LocalCluster
from headrace.local_cluster.zookeeper import Java, find_java
from headrace.runtime.clock import SystemClock
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.loops import refuse_without_assertions

_BUCKETS: Final = 16
_CONTAINERS_OF_A_STORE: Final = 2


def run_local(
    *,
    data_dir: str,
    stores: int,
    controllers: int,
    containers: int | None,
    storage: str | None,
    coordinator: str | None,
    ready_file: str | None,
    no_restart: bool,
) -> None:
    """Run it until SIGTERM or Ctrl-C.

    Raises:
        UnsupportedError: a ZooKeeper is to be started, and Java or its jars are missing.
        DirectoryLockedError: another process has the directory.
        HeadraceError: as :meth:`LocalCluster.run`.
    """
    refuse_without_assertions()
    count = _CONTAINERS_OF_A_STORE * stores if containers is None else containers
    check_containers(count)
    java = None if coordinator is not None else _java()
    directory = ClusterDirectory(Path(data_dir))
    facts = make_facts(count, _BUCKETS, directory.log_uri, storage or directory.storage_uri)
    lock = DirectoryLock(OsFilesystem(), str(directory.path), describe_process(SystemClock()))
    lock.acquire()
    try:
        progress(f"starting {controllers} controllers and {stores} stores in {directory.path}")
        asyncio.run(
            _run(
                directory,
                controllers,
                stores,
                facts,
                connect,
                _show,
                lambda text: progress(printable(text)),
                coordinator=coordinator,
                java=java,
                containers=containers,
                ready_file=None if ready_file is None else Path(ready_file),
                restarts=not no_restart,
            )
        )
    finally:
        lock.release()


async def _run(*arguments: Any, **options: Any) -> None:
    await LocalCluster(*arguments, **options).run()


def _java() -> Java:
    try:
        return find_java()
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{error}. Or name a ZooKeeper that runs: --coordinator zk://HOST:PORT/ROOT"
        ) from None


def _show(document: dict[str, Any]) -> None:
    controllers = ",".join(document["controllers"])
    print_fields(
        [
            ("controllers", controllers),
            ("rest", ",".join(document["rest"])),
            ("coordinator", document["coordinator"]),
            *((f"store {each['id']}", each["address"]) for each in document["stores"]),
        ]
    )
    print_line("")
    print_line(f"export HEADRACE_URI={'tls' if document['tls'] else 'tcp'}://{controllers}")
    print_line(f"export HEADRACE_COORDINATOR={document['coordinator']}")
    progress("the cluster is up; Ctrl-C ends it, and a next start goes on with its data")
