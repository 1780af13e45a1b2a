"""Whether segment stores of a cluster serve the data that a verb is about to change."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from headrace.cli.cluster.cluster_session import in_session
from headrace.cluster.claim_node import Claim
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import read_facts
from headrace.cluster.node_reads import read_claims, read_stores
from headrace.cluster.store_node import StoreNode
from headrace.coordination.contract import Session
from headrace.data_directory.record import FILE_NAME, recorded_cluster, system_of
from headrace.data_directory.shared_directory import directory_of
from headrace.errors import DirectoryLockedError, InvalidArgumentError
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.location import StorageLocation

_Seen = tuple[Facts, dict[int, Claim], dict[str, StoreNode]]


def refuse_while_served(
    coordinator: str | None, files: Filesystem, directory: str, source: str | None = None
) -> str:
    """Return what the cluster agrees through that has its logs in ``directory``; "" if there is none.

    ``source``: chunks from which ``directory`` is made anew, which are the cluster's as well.

    Raises:
        DirectoryLockedError: a store has a claim; the message names it.
        InvalidArgumentError: the directory is a cluster's, and no coordinator was named, or another one's.
        UnreachableError: the coordinator does not answer.
    """
    recorded = recorded_cluster(files, directory)
    if coordinator is None:
        if recorded:
            raise InvalidArgumentError(
                f"{directory} has the data of the cluster at {recorded}, whose stores are to be asked first: "
                f"name it with --coordinator {recorded}. If that cluster is gone for ever, take its name out "
                f"of {directory}/{FILE_NAME}"
            )
        return ""
    if not recorded and source is None:
        return ""
    facts, claims, stores = in_session(coordinator, _look)
    if recorded and system_of(files, directory) != facts.system:
        raise InvalidArgumentError(
            f"{directory} has the data of the cluster at {recorded}, not of the one at {coordinator}"
        )
    if not recorded and str(StorageLocation.parse(source or "")) != facts.storage:
        return ""
    by_store: dict[str, list[int]] = defaultdict(list)
    for container_id, claim in sorted(claims.items()):
        by_store[claim.store].append(container_id)
    for store, numbers in by_store.items():
        address = stores[store].endpoint if store in stores else store
        served = ", ".join(map(str, numbers))
        raise DirectoryLockedError(
            directory,
            f"segment store {address} of the cluster at {coordinator}, which serves containers {served}: "
            "stop all stores of it first",
        )
    return coordinator if directory_of(facts.log, directory if recorded else "-") == directory else ""


async def _look(session: Session) -> _Seen:
    facts = await read_facts(session)
    claims, stores = await asyncio.gather(read_claims(session), read_stores(session))
    return facts, claims, stores
