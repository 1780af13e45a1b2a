"""Where the records of one container epoch end. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import DataCorruptionError
from headrace.wal.objects.object_format import is_record_length
from headrace.wal.objects.object_names import LogListing, Position, record_name
from headrace.wal.objects.requests import Plan, read_object


def find_end(lengths: Mapping[int, int], first: int) -> int:
    """Return the lowest sequence from ``first`` on that is no record, by the lengths of objects."""
    end = first
    while is_record_length(lengths.get(end, 0)):
        end += 1
    return end


def first_sequence(listing: LogListing, container_epoch: int) -> int:
    """Return the lowest sequence of the epoch that the log still has."""
    position = listing.head.position
    return position.sequence if position.epoch == container_epoch else 0


def check_end(container: int, listing: LogListing, container_epoch: int, end: int) -> Plan[None]:
    """Refuse an end that is a hole.

    Raises:
        DataCorruptionError: a record that was acknowledged is missing there.
    """
    lengths = listing.records.get(container_epoch, {})
    name = record_name(container, Position(container_epoch, end))
    if end not in lengths and listing.has_records_after(container_epoch):
        raise DataCorruptionError("a record of the log is missing, or a fence", path=name)
    above = [sequence for sequence, length in lengths.items() if sequence > end and is_record_length(length)]
    if not above:
        return
    highest = record_name(container, Position(container_epoch, max(above)))
    found = yield from read_object(highest, lengths[max(above)])
    if found is not None and found.header.acknowledged > end:
        raise DataCorruptionError("a record that was acknowledged is missing", path=name)
