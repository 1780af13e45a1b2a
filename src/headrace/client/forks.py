"""What a fork leaves with the parent: in the child everything that was opened before says so when it is used.

A child inherits objects whose sockets, threads and loops are the parent's. It neither uses nor destroys them:
each is changed, in the child, into one whose calls raise :class:`OpenedBeforeForkError`, and is never
collected. That costs the parent one entry of a set per object, and nothing per call.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import re
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Final, Self

from headrace.errors import OpenedBeforeForkError

_SPECIAL: Final = (
    "__aenter__",
    "__aiter__",
    "__anext__",
    "__await__",
    "__contains__",
    "__delitem__",
    "__enter__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__next__",
    "__setitem__",
    "_check_process",
)
"""Calls that Python makes, and that are refused as those with a name."""

_KIND_AND_PLACE: Final = re.compile(r"<headrace\.(?:aio\.)?(\w+)( of)? ([^\s,>]+)")
"""How the ``repr`` of what is handed out begins."""

_opened: Final[weakref.WeakSet[OfOneProcess]] = weakref.WeakSet()
_refusals: Final[dict[int, str]] = {}
"""By ``id``, which stays: what is in here lives as long as the process."""

generation: int = 0
"""Forks between the first process and this one: for what is made too often to be registered."""


class OfOneProcess:
    """Something that only the process that opened it uses.

    In a child that was forked since, its public calls raise OpenedBeforeForkError, but for those that end it:
    these do nothing, since it is the parent's, and it goes on there. Properties keep their values.
    """

    __slots__ = ()

    _endings: ClassVar[frozenset[str]] = frozenset({"close"})
    """Methods that do nothing in the child, as leaving its block."""
    _leaving_is_a_call: ClassVar[bool] = False
    """Leaving its block without an error does what nobody may miss: a commit."""
    _called: ClassVar[str] = ""
    """What it is called if its ``repr`` does not say it."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        self = super().__new__(cls)
        _opened.add(self)
        return self

    def _check_process(self) -> None:
        """Raise OpenedBeforeForkError if it was opened before a fork."""

    def _leave_to_parent(self) -> None:
        """Called in the child before it is changed into what refuses."""


def _refuse(self: OfOneProcess, *arguments: Any, **_: Any) -> Any:
    for each in arguments:
        if inspect.iscoroutine(each):
            each.close()  # or Python complains that it never ran
    raise OpenedBeforeForkError(f"{_refusals[id(self)]} was opened before a fork: open it in this process")


def _ignore(_self: OfOneProcess, *arguments: Any, **_: Any) -> None:
    for each in arguments:
        if inspect.iscoroutine(each):
            each.close()


async def _ignore_soon(self: OfOneProcess, *arguments: Any, **_: Any) -> None:
    _ignore(self, *arguments)


def _leave(self: OfOneProcess, kind: Any, *_: Any) -> None:
    if self._leaving_is_a_call and kind is None:
        _refuse(self)


async def _leave_soon(self: OfOneProcess, kind: Any, *_: Any) -> None:
    _leave(self, kind)


@functools.cache
def _refusing(kind: Any) -> type[Any]:
    """Return the subclass of a class whose calls are refused."""
    calls: dict[str, Any] = {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__}
    for name in dir(kind):
        if name.startswith("_") and name not in _SPECIAL:
            continue
        method = getattr(kind, name)
        if name in kind._endings:  # noqa: SLF001 - our own class
            calls[name] = _ignore_soon if inspect.iscoroutinefunction(method) else _ignore
        elif callable(method):
            calls[name] = _refuse
    if hasattr(kind, "__exit__"):
        calls["__exit__"] = _leave
    if hasattr(kind, "__aexit__"):
        calls["__aexit__"] = _leave_soon
    meta: Any = type(kind)
    refusing: type[Any] = meta(kind.__name__, (kind,), calls)
    return refusing


def _describe(each: OfOneProcess) -> str:
    if each._called:  # noqa: SLF001 - our own class
        return each._called  # noqa: SLF001 - as above
    try:
        found = _KIND_AND_PLACE.match(repr(each))
    except Exception:  # noqa: BLE001 - another thread was in the middle of making it, or of a change
        found = None
    return type(each).__name__ if found is None else "".join((found[1], found[2] or "", " ", found[3]))


def keep_for_ever(inherited: object) -> None:
    """Never destroy what the child inherited, not even when it ends: a transport of uvloop that is destroyed
    leaves the set of sockets that parent and child wait with, and the parent's connection is deaf.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


def _after_in_child() -> None:
    global generation  # noqa: PLW0603 - of the process
    generation += 1
    inherited: list[Any] = list(_opened)
    _opened.clear()
    for each in inherited:
        keep_for_ever(each)
        _refusals[id(each)] = _describe(each)  # of all, before the first one refuses
    for each in inherited:
        each._leave_to_parent()  # noqa: SLF001 - our own class
    for each in inherited:
        kind: Any = type(each)
        each.__class__ = _refusing(kind)


def at_fork(
    *,
    before: Callable[[], None] | None = None,
    in_parent: Callable[[], None] | None = None,
    in_child: Callable[[], None] | None = None,
) -> None:
    """Have functions called around every fork, where a system has forks."""
    given = {"before": before, "after_in_parent": in_parent, "after_in_child": in_child}
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**{when: call for when, call in given.items() if call is not None})


at_fork(in_child=_after_in_child)
