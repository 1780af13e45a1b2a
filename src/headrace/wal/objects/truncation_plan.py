"""How an owner drops the beginning of its log: first the head, then what lies in front of it. Pure."""

from __future__ import annotations

from typing import Final

from headrace.errors import FencedOutError
from headrace.wal.objects.living_log import LivingLog
from headrace.wal.objects.object_format import Kind, ObjectHeader
from headrace.wal.objects.object_names import NO_HEAD, claim_name, head_name
from headrace.wal.objects.requests import Delete, Plan, create_object, read_object

_BATCH_NAMES_MAX: Final = 100


def check_fence(container: int, container_epoch: int) -> Plan[bool]:
    """Return whether a newer owner has the log: the one of the next container epoch was the first."""
    return (yield from read_object(claim_name(container, container_epoch + 1))) is not None


def truncate_log(living: LivingLog, garbage: list[str], container_epoch: int, address: int) -> Plan[None]:
    """Drop what lies before ``address``. What could not be deleted stays in ``garbage``.

    Raises:
        FencedOutError: a newer owner has the log; nothing was dropped.
    """
    if (yield from check_fence(living.container, container_epoch)):
        raise FencedOutError("a newer owner has taken the log")
    head = living.plan_head(address)
    if head is not None:
        header = ObjectHeader(Kind.HEAD, living.container, *head.position, head.address)
        other = yield from create_object(head_name(living.container, head), header)
        assert other is None  # whoever makes a head of this name makes the same
        former = living.head
        garbage += living.cut(head)
        if former != NO_HEAD:
            garbage.append(head_name(living.container, former))
    yield from delete_garbage(garbage)


def delete_garbage(garbage: list[str]) -> Plan[None]:
    """Delete what is in ``garbage``; what could not be deleted stays in it."""
    left: list[str] = []
    while garbage:
        names = garbage[:_BATCH_NAMES_MAX]
        deleted = yield [Delete(name) for name in names]
        del garbage[: len(names)]
        left += [name for name, done in zip(names, deleted, strict=True) if not done]
    garbage += left
