"""The names of the objects of a log, and what a listing of them tells.

======================================  ===========================================================
``<container>/e<epoch>``                claim of a container epoch, or start of a log
``<container>/r<epoch>-<sequence>``     record, or fence
``<container>/h<epoch>-<sequence>-<a>`` head: the log begins at address *a*, which is in that record
``system``                              whose logs these are
======================================  ===========================================================

Numbers are decimal, without leading zeros. Other names are none of ours and are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.errors import DataCorruptionError
from headrace.limits import INT64_MAX
from headrace.wal.objects.object_format import FIRST_ADDRESS, Kind, ObjectHeader, is_record_length

_NUMBER: Final = "(0|[1-9][0-9]{0,18})"
_NAME: Final = re.compile(
    f"{_NUMBER}/(?:e{_NUMBER}|r{_NUMBER}-{_NUMBER}|h{_NUMBER}-{_NUMBER}-{_NUMBER})", re.ASCII
)


SYSTEM_NAME: Final = "system"


class Position(NamedTuple):
    """Place of an object among the records of a log; ordered."""

    epoch: int
    """Container epoch."""
    sequence: int


class Head(NamedTuple):
    """A truncation point; ordered, the highest is in force."""

    position: Position
    address: int


NO_HEAD: Final = Head(Position(0, 0), FIRST_ADDRESS)
"""Of a log that was never truncated."""


def log_prefix(container: int) -> str:
    """Return what the names of the log of ``container`` begin with."""
    return f"{container}/"


def head_prefix(container: int) -> str:
    """Return what the names of its heads begin with."""
    return f"{container}/h"


def claim_name(container: int, container_epoch: int) -> str:
    """Return the name of the claim of a container epoch."""
    return f"{container}/e{container_epoch}"


def record_name(container: int, position: Position) -> str:
    """Return the name of a record or fence."""
    return f"{container}/r{position.epoch}-{position.sequence}"


def head_name(container: int, head: Head) -> str:
    """Return the name of a head."""
    return f"{container}/h{head.position.epoch}-{head.position.sequence}-{head.address}"


def check_header(header: ObjectHeader, name: str) -> None:
    """Refuse an object that says something else than its name: it was copied from elsewhere.

    Raises:
        DataCorruptionError: it does.
    """
    position = Position(header.epoch, header.sequence)
    if header.kind in {Kind.CLAIM, Kind.START}:
        expected = claim_name(header.container, header.epoch)
    elif header.kind is Kind.SYSTEM:
        expected = SYSTEM_NAME
    elif header.kind is Kind.HEAD:
        expected = head_name(header.container, Head(position, header.address))
    else:
        expected = record_name(header.container, position)
    if expected != name:
        raise DataCorruptionError(f"the object says that it is {expected}", path=name)


@dataclass(slots=True)
class LogListing:
    """The objects of one log."""

    claims: set[int] = field(default_factory=set)
    """Container epochs."""
    heads: set[Head] = field(default_factory=set)
    records: dict[int, dict[int, int]] = field(default_factory=dict)
    """By container epoch and sequence the length of a record or fence."""

    @property
    def head(self) -> Head:
        """Where the log begins."""
        return max(self.heads, default=NO_HEAD)

    @property
    def newest_epoch(self) -> int:
        """Highest container epoch of any object; 0 if there is none."""
        return max((*self.claims, *self.records), default=0)

    def epochs(self) -> list[int]:
        """Return the container epochs from the head on that may have records, oldest first."""
        begin = self.head.position.epoch
        return sorted(epoch for epoch in {*self.claims, *self.records} if epoch >= begin)

    def has_records_after(self, container_epoch: int) -> bool:
        """Whether a later owner has written, which proves that it had fenced this epoch."""
        if self.head.position.epoch > container_epoch:
            return True
        return any(
            epoch > container_epoch and any(map(is_record_length, found.values()))
            for epoch, found in self.records.items()
        )


def parse_listing(objects: Mapping[str, int], container: int) -> LogListing:
    """Return what a listing (names and lengths) says about the log of ``container``."""
    listing = LogListing()
    for name, length in objects.items():
        match = _NAME.fullmatch(name)
        if match is None or any(each is not None and int(each) > INT64_MAX for each in match.groups()):
            continue
        found, claim, *rest = (None if each is None else int(each) for each in match.groups())
        if found != container:
            continue
        if claim is not None:
            listing.claims.add(claim)
            continue
        epoch, sequence, head_epoch, head_sequence, address = rest
        if epoch is not None and sequence is not None:
            listing.records.setdefault(epoch, {})[sequence] = length
        elif head_epoch is not None and head_sequence is not None and address is not None:
            listing.heads.add(Head(Position(head_epoch, head_sequence), address))
    return listing


def containers_in(names: Iterable[str]) -> Iterator[int]:
    """Yield the container of each name of an object of a log."""
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None:
            yield int(match[1])
