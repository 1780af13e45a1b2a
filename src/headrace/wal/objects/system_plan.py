"""Whose logs a store has. Pure."""

from __future__ import annotations

from headrace.errors import DataCorruptionError
from headrace.wal.log_system import LogSystem
from headrace.wal.objects.object_format import Kind, LogObject, ObjectHeader
from headrace.wal.objects.object_names import SYSTEM_NAME
from headrace.wal.objects.requests import Plan, create_object, read_object


def find_system() -> Plan[LogSystem | None]:
    """Return whose logs they are, None if nobody has claimed the store.

    Raises:
        DataCorruptionError: that is damaged.
    """
    found = yield from read_object(SYSTEM_NAME)
    return None if found is None else _system_of(found)


def claim_system(system: LogSystem) -> Plan[LogSystem]:
    """Claim the store; return whose it is.

    Raises:
        DataCorruptionError: that is damaged.
    """
    header = ObjectHeader(Kind.SYSTEM, system.containers, 0, write_id=bytes.fromhex(system.system))
    other = yield from create_object(SYSTEM_NAME, header)
    return system if other is None else _system_of(other)


def _system_of(found: LogObject) -> LogSystem:
    if found.header.container == 0:
        raise DataCorruptionError("the system has no containers", path=SYSTEM_NAME)
    return LogSystem(found.header.write_id.hex(), found.header.container)
