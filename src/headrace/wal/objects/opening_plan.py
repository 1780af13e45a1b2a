"""How an owner takes a log: it claims a container epoch, fences all older ones, and knows what they left.

Pure.

Format page: ``docs/formats/wal-object.md`` has the order of steps, and why it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError, FencedOutError, WalWriteError
from headrace.wal.objects.epoch_end import check_end, find_end, first_sequence
from headrace.wal.objects.living_log import LivingLog, LivingRecord
from headrace.wal.objects.object_format import (
    HEADER_BYTES,
    Kind,
    ObjectHeader,
    is_record_length,
    object_bytes,
)
from headrace.wal.objects.object_names import (
    Head,
    LogListing,
    Position,
    claim_name,
    head_name,
    head_prefix,
    log_prefix,
    parse_listing,
    record_name,
)
from headrace.wal.objects.requests import Create, Plan, Request, create_object, list_names, read_object

LOOKS_MAX: Final = 5
"""Until the head stays the same: former owners truncate seldom, and only once each after they were fenced."""


@dataclass(slots=True)
class TakenLog:
    """A log with a new owner."""

    container_epoch: int
    living: LivingLog
    garbage: list[str]
    """Names of what may be deleted at any time."""


def open_log(container: int, write_id: bytes, window: int) -> Plan[TakenLog]:
    """Take the log. ``window``: creates that a former owner may have had in flight.

    Raises:
        FencedOutError: a newer owner has taken it meanwhile, and uses it.
        DataCorruptionError: an object is damaged, or missing.
        WalWriteError: former owners truncate it again and again.
    """
    epoch = yield from _claim(container, write_id)
    last_problem = ""
    for _ in range(LOOKS_MAX):
        listing = parse_listing((yield from list_names(log_prefix(container))), container)
        head = listing.head
        if head.position.epoch >= epoch:
            raise FencedOutError("a newer owner has taken the log")
        problem: DataCorruptionError | None = None
        taken: TakenLog | None = None
        try:
            for old in listing.epochs():
                if old < epoch:
                    yield from fence_epoch(container, listing, old, write_id, window)
            taken = yield from _read_ends(container, listing, epoch)
        except DataCorruptionError as error:
            problem = error
        again = parse_listing((yield from list_names(head_prefix(container))), container).head
        if again != head:
            continue  # a former owner has deleted what seemed to be missing
        if taken is not None:
            return taken
        assert problem is not None
        if str(problem) == last_problem:
            raise problem
        last_problem = str(problem)  # a record may have been made while its neighbours were listed
    raise WalWriteError(
        f"the log of container {container} was truncated again and again while it was opened: open it again"
    )


def _claim(container: int, write_id: bytes) -> Plan[int]:
    """Return a container epoch that is this owner's alone."""
    listing = parse_listing((yield from list_names(log_prefix(container))), container)
    epoch = listing.newest_epoch + 1
    while True:
        header = ObjectHeader(Kind.CLAIM, container, epoch, write_id=write_id)
        if (yield from create_object(claim_name(container, epoch), header)) is None:
            return epoch
        epoch += 1


def fence_epoch(
    container: int, listing: LogListing, container_epoch: int, write_id: bytes, window: int
) -> Plan[None]:
    """Make sure that an older epoch has an end, and enter it in ``listing``.

    Raises:
        DataCorruptionError: it has a hole.
    """
    lengths = listing.records.setdefault(container_epoch, {})
    first = first_sequence(listing, container_epoch)
    while True:
        end = find_end(lengths, first)
        yield from check_end(container, listing, container_epoch, end)
        if end in lengths:
            name = record_name(container, Position(container_epoch, end))
            found = yield from read_object(name)
            if found is None:
                raise DataCorruptionError("a fence of the log is missing", path=name)
            if found.header.kind is Kind.FENCE:
                return
            lengths[end] = object_bytes(found)  # it was being written when it was listed
            continue
        requests: list[Request] = []
        for sequence in range(end, end + 2 * window + 1):
            position = Position(container_epoch, sequence)
            header = ObjectHeader(Kind.FENCE, container, *position, write_id=write_id)
            requests.append(Create(record_name(container, position), header))
        for sequence, found in enumerate((yield requests), start=end):
            lengths[sequence] = HEADER_BYTES if found is None else object_bytes(found)


def _read_ends(container: int, listing: LogListing, container_epoch: int) -> Plan[TakenLog]:
    records, garbage = plan_reading(container, listing, container_epoch)
    next_address = yield from find_next_address(container, records, listing.head)
    living = LivingLog(container, listing.head, records, Position(container_epoch, 0), next_address)
    return TakenLog(container_epoch, living, garbage)


def plan_reading(
    container: int, listing: LogListing, container_epoch: int
) -> tuple[list[LivingRecord], list[str]]:
    """Return the records of all epochs before ``container_epoch`` in order, and the names of what is garbage.

    A fence in front of the head stays: which one ended its epoch is not known any more.
    """
    head = listing.head
    living: list[LivingRecord] = []
    garbage = [head_name(container, old) for old in sorted(listing.heads) if old < head]
    for epoch, lengths in sorted(listing.records.items()):
        if epoch >= container_epoch:
            continue
        first = first_sequence(listing, epoch)
        end = find_end(lengths, first) if epoch >= head.position.epoch else None
        for sequence, length in sorted(lengths.items()):
            position = Position(epoch, sequence)
            if end is not None and first <= sequence < end:
                living.append(LivingRecord(position, length))
            elif is_record_length(length) or (end is not None and sequence > end):
                garbage.append(record_name(container, position))
    return living, garbage


def find_next_address(container: int, records: list[LivingRecord], head: Head) -> Plan[int]:
    """Return the address behind the last record.

    Raises:
        DataCorruptionError: it is damaged, or missing.
    """
    if not records:
        return head.address
    last = records[-1]
    name = record_name(container, last.position)
    found = yield from read_object(name, last.length)
    if found is None:
        raise DataCorruptionError("a record of the log is missing", path=name)
    return max(head.address, found.header.address + len(found.frames))
