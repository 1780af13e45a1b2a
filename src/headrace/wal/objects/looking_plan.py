"""What a log holds, for whoever only looks: nothing is fenced, and its owner may go on writing.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import DataCorruptionError, SnapshotLostError
from headrace.wal.objects.epoch_end import check_end, find_end, first_sequence
from headrace.wal.objects.living_log import LivingRecord
from headrace.wal.objects.object_format import Kind, LogObject
from headrace.wal.objects.object_names import (
    NO_HEAD,
    Head,
    claim_name,
    head_prefix,
    log_prefix,
    parse_listing,
    record_name,
)
from headrace.wal.objects.opening_plan import find_next_address, plan_reading
from headrace.wal.objects.requests import Plan, Read, list_names, read_object

LOOKS_MAX: Final = 3


@dataclass(slots=True)
class SeenLog:
    """A log as it was at one moment."""

    container_epoch: int
    """The newest that was claimed."""
    problem: str = ""
    head: Head = NO_HEAD
    records: list[LivingRecord] = field(default_factory=list)
    next_address: int = 0


def is_log_begun(container: int) -> Plan[bool]:
    """Return whether an owner had the log, or anything of it is there."""
    listing = parse_listing((yield from list_names(log_prefix(container))), container)
    if listing.records or listing.heads or len(listing.claims) > 1:
        return True
    for epoch in listing.claims:
        try:
            found = yield from read_object(claim_name(container, epoch))
        except DataCorruptionError:
            return True
        return found is not None and found.header.kind is Kind.CLAIM
    return False


def look_at_log(container: int) -> Plan[SeenLog | None]:
    """Return the log, None if there is none.

    Raises:
        SnapshotLostError: its owner truncated it meanwhile.
    """
    seen: SeenLog | None = None
    for _ in range(LOOKS_MAX):
        listing = parse_listing((yield from list_names(log_prefix(container))), container)
        if not listing.newest_epoch and not listing.claims and not listing.heads:
            return None
        problem = seen.problem if seen is not None else ""
        seen = SeenLog(listing.newest_epoch, head=listing.head)
        try:
            for epoch in listing.epochs():
                end = find_end(listing.records.get(epoch, {}), first_sequence(listing, epoch))
                yield from check_end(container, listing, epoch, end)
            seen.records, _ = plan_reading(container, listing, listing.newest_epoch + 1)
            seen.next_address = yield from find_next_address(container, seen.records, seen.head)
        except DataCorruptionError as error:
            seen.problem = str(error)
        heads = yield from list_names(head_prefix(container))
        if parse_listing(heads, container).head != seen.head:
            raise SnapshotLostError(f"the log of container {container} was truncated while it was looked at")
        if not seen.problem or seen.problem == problem:
            return seen  # a record may be made while its neighbours are listed, but hardly twice
    return seen


def read_records(container: int, records: Sequence[LivingRecord]) -> Plan[list[LogObject]]:
    """Return some records of a log that was looked at.

    Raises:
        SnapshotLostError: one is not there any more.
    """
    names = [record_name(container, record.position) for record in records]
    requests = [Read(name, record.length) for name, record in zip(names, records, strict=True)]
    found: list[LogObject] = []
    for name, each in zip(names, (yield [*requests]), strict=True):
        if each is None:
            raise SnapshotLostError(f"{name} is not there any more: the log was truncated, or it is lost")
        found.append(each)
    return found
