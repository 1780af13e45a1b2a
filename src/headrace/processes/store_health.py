"""What of a segment store has a state of its own: long-term storage, and each container."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.segmentstore.hosting.hosted_container import ContainerHealth
from headrace.web.process_parts import DOWN, UP, Contributor


def store_contributors(
    refusals: Mapping[str, str], containers: Iterable[ContainerHealth]
) -> list[Contributor]:
    """Return the state of each, by what long-term storage refuses and how the containers are."""
    hindered = f"refuses {', '.join(refusals)}: {next(iter(refusals.values()))}" if refusals else ""
    storage = Contributor("longTermStorage", UP, dict(refusals), hindered=hindered)
    return [storage, *map(_container, containers)]


def _container(found: ContainerHealth) -> Contributor:
    return Contributor(
        f"container-{found.container_id}",
        UP if found.online else DOWN,
        {"restarts": str(found.restarts), "lastFailure": found.last_failure, "waitsFor": found.waits_for},
        hindered=f"waits for {found.waits_for}" if found.waits_for else "",
    )
