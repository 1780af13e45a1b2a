"""How a public call fails: with one frame of ours below the caller's, and with what a misspelt keyword meant.

The error that leaves is a copy of the one that was raised, without its frames, and without causes that are
not ours: those of event loops, futures and gRPC. It has the original as ``inner``; with ``HEADRACE_DEBUG=1``
the original leaves.
"""

from __future__ import annotations

import functools
import inspect
import os
import weakref
from collections.abc import Callable, Collection, Coroutine
from types import CoroutineType, FunctionType
from typing import Any, Final, TypeVar

from headrace.errors import HeadraceError
from headrace.runtime.client_variables import DEBUG_VARIABLE

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE: Final = "headrace.client"
_CALLED_BY_SYNTAX: Final = {
    "__enter__",
    "__exit__",
    "__aenter__",
    "__aexit__",
    "__iter__",
    "__getitem__",
    "__setitem__",
    "__delitem__",
    "__contains__",
    "__len__",
}
OURS: Final = (HeadraceError, TimeoutError)
_EXPLAINED: Final = (*OURS, TypeError)
_public: Final[weakref.WeakSet[Callable[..., Any]]] = weakref.WeakSet()


def outward(error: BaseException) -> BaseException:
    """Return what a caller is to see of an error of ours: to be raised outside of ``except``, where it would
    get that error as its context.
    """
    if os.environ.get(DEBUG_VARIABLE, "") not in {"", "0"}:
        return error
    copy = _bare(error)
    if isinstance(error.__cause__, OURS):
        copy.__cause__ = _bare(
            error.__cause__
        )  # and nothing behind that: two errors can be told in a line each
    return copy


def _bare(error: BaseException) -> BaseException:
    kind = type(error)
    copy = kind.__new__(kind, *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__dict__.setdefault("inner", error)
    return copy


def original_of(error: BaseException) -> BaseException:
    """Return what a caller saw a copy of; the error itself if it is none."""
    return getattr(error, "inner", None) or error


def public_call(function: F) -> F:
    """Return a function of a face whose errors are those of its caller."""
    if function in _public:
        return function
    call: F = _awaited(function) if inspect.iscoroutinefunction(function) else _called(function)
    _public.add(call)
    return call


def make_public(*faces: type, but: Collection[str] = (), also: Collection[str] = ()) -> None:
    """Make the methods of classes, and of those they inherit from, public calls.

    Args:
        faces: classes of the client.
        but: names of methods that look to it themselves: they are called for each event, for which the hop
            would be felt, or hand something out, which an interrupt in the hop would lose.
        also: names of further ones.
    """
    for face in faces:
        for kind in face.__mro__:
            if kind.__module__.startswith(_PACKAGE):
                for name, method in list(vars(kind).items()):
                    is_public = not name.startswith("_") or name in _CALLED_BY_SYNTAX or name in also
                    if isinstance(method, FunctionType) and is_public and name not in but:
                        setattr(kind, name, public_call(method))


def _called(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            return _told(function, kwargs, result) if type(result) is CoroutineType else result
        except _EXPLAINED as error:
            failure = _explained(function, kwargs, error)
            if failure is error:
                raise
        raise failure

    return call


async def _told(
    function: Callable[..., Any], keywords: Collection[str], call: Coroutine[Any, Any, Any]
) -> Any:
    """Await what a function that is no coroutine function returned: one that takes both names in one text."""
    try:
        return await call
    except _EXPLAINED as error:
        failure = _explained(function, keywords, error)
        if failure is error:
            raise
    raise failure


def _awaited(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except _EXPLAINED as error:
            failure = _explained(function, kwargs, error)
            if failure is error:
                raise
        raise failure

    return call


def _explained(
    function: Callable[..., Any], keywords: Collection[str], error: BaseException
) -> BaseException:
    """Return what to raise instead of an error."""
    if isinstance(error, TypeError):
        return _find_misspelt(function, keywords) or error
    return outward(error)


def _find_misspelt(function: Callable[..., Any], keywords: Collection[str]) -> TypeError | None:
    """Return what to say of a keyword that the function has not; None if it has all."""
    parameters = inspect.signature(function).parameters.values()
    kinds = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    known = [each.name for each in parameters if each.kind in kinds and each.name != "self"]
    unknown = next((name for name in keywords if name not in known), None)
    if unknown is None or any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    import difflib  # hardly ever needed

    near = difflib.get_close_matches(unknown, known, 1, 0.5)
    meant = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}"
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    return TypeError(f"{called}() takes no keyword {unknown!r}; {meant}")
