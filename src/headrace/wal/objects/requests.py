"""What a plan asks of the store: lists of requests that are made at the same time, each with its answer.

Pure.

A plan is a generator. Its driver makes the requests that it yields, and sends their answers back, in the same
order; what the plan returns is its result.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.wal.objects.object_format import LogObject, ObjectHeader

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object without frames. Answer: None if it is there, else the one that has its name."""

    name: str
    header: ObjectHeader


@dataclass(frozen=True, slots=True)
class Read:
    """Read an object. Answer: None if there is none."""

    name: str
    length: int | None = None
    """If it is known: then a request is saved."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, which need not be there. Answer: whether that is sure."""

    name: str


@dataclass(frozen=True, slots=True)
class ListNames:
    """List objects by the beginning of their names. Answer: names and lengths."""

    prefix: str


Request = Create | Read | Delete | ListNames
Plan = Generator[list[Request], list[Any], R]


def read_object(name: str, length: int | None = None) -> Plan[LogObject | None]:
    """Return an object, None if there is none."""
    [found] = yield [Read(name, length)]
    assert found is None or isinstance(found, LogObject)
    return found


def list_names(prefix: str) -> Plan[Mapping[str, int]]:
    """Return names and lengths of the objects whose names begin with ``prefix``."""
    [found] = yield [ListNames(prefix)]
    assert isinstance(found, Mapping)
    return found


def create_object(name: str, header: ObjectHeader) -> Plan[LogObject | None]:
    """Create an object; return None, or the one that has its name."""
    [found] = yield [Create(name, header)]
    assert found is None or isinstance(found, LogObject)
    return found
