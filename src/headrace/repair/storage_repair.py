"""Mends long-term storage as the owner of its containers: by ordinary truncations and the collector.

Nobody else can connect meanwhile. A kill at any moment is as safe as that of a server.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from headrace.errors import CorruptionError, NoSuchSegmentError
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.segment_store import ServedStore
from headrace.processes.wired_store import WiredStore
from headrace.repair.event_boundary import SEARCHED_BYTES, find_boundary
from headrace.repair.repair_plan import RepairPlan, Truncation
from headrace.runtime.context import system_runtime
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer

_OBJECTS_PER_CALL: Final = 1000
_NEVER_S: Final = 1e9


@dataclass(slots=True)
class RepairReport:
    """What was done."""

    truncated: list[tuple[str, int, int]] = field(default_factory=list)
    """Segment, where its bytes were lost up to, and where it begins now: at the next event."""

    deleted: int = 0
    """Objects that nothing needed: orphans, and what truncations have dropped."""

    left: list[str] = field(default_factory=list)
    """What could not be done, one sentence each."""


async def repair_storage(config: SegmentStoreConfig, plan: RepairPlan) -> RepairReport:
    """Carry out a plan in a data directory that no server uses.

    Raises:
        DirectoryLockedError: one does.
        DataCorruptionError: a container cannot be recovered; nothing was done.
    """
    part = ServedStore(replace(config, container=_quiet(config.container)), system_runtime())
    report = RepairReport()
    try:
        part.take()
        await part.start()
        for container in part.wired.registry.running():
            await container.flush_storage()
            await _truncate_all(container, plan, report)
        await _collect(part.wired, report)
    finally:
        await part.stop()
    return report


def _quiet(config: ContainerConfig) -> ContainerConfig:
    """Nothing is deleted or rewritten in the background; and no reader may still have an old layout."""
    return replace(
        config,
        storage=replace(config.storage, garbage_delay_s=0.0),
        optimiser=replace(config.optimiser, mode="off"),
        storage_writer=replace(config.storage_writer, garbage_interval_s=_NEVER_S),
    )


async def _truncate_all(container: SegmentContainer, plan: RepairPlan, report: RepairReport) -> None:
    for truncation in plan.truncations:
        if truncation.container_id == container.container_id:
            await _truncate(container, truncation, report)
    await container.flush_storage()


async def _truncate(container: SegmentContainer, truncation: Truncation, report: RepairReport) -> None:
    name = truncation.segment
    try:
        segment = await container.resolve(name)
    except NoSuchSegmentError:
        return  # deleted by the recovery of what was accepted before
    if segment.segment_id != truncation.segment_id or segment.start_offset >= truncation.head_end:
        return
    offset = await _find_start(container, segment.storage_name, truncation.head_end)
    if offset is None:
        report.left.append(
            f"{name!r} has lost its bytes up to {truncation.head_end}, and where the next event begins "
            "cannot be said: put the objects back, or truncate the stream behind them"
        )
        return
    await container.truncate(segment, offset)
    report.truncated.append((name, truncation.head_end, offset))


async def _find_start(container: SegmentContainer, storage_name: str, lost_to: int) -> int | None:
    """Return the offset of the first event behind a loss, or the end of the segment if nothing is there."""
    storage = container.tiers.storage
    assert storage is not None
    info = await storage.info(storage_name)
    length = lost_to if info is None else info.length
    found = bytearray()
    while len(found) < min(SEARCHED_BYTES, length - lost_to):
        at = lost_to + len(found)
        try:
            found += await storage.read_some(storage_name, at, min(SEARCHED_BYTES, length - at))
        except CorruptionError:
            break  # lost as well, or damaged
    if lost_to == length:
        return length
    boundary = find_boundary(memoryview(found), is_end=lost_to + len(found) == length)
    return None if boundary is None else lost_to + boundary


async def _collect(store: WiredStore, report: RepairReport) -> None:
    for container in store.registry.running():
        storage = container.tiers.storage
        assert storage is not None
        report.deleted += await storage.garbage.collect_orphans()
        while deleted := await storage.garbage.collect(_OBJECTS_PER_CALL):
            report.deleted += deleted
