"""``"scope/stream"``, one text, in place of a scope and a stream: a call that is :func:`named` takes either.

Names have no slash, so a text with one is both names, and what follows moves up:
``cut_at("demo/orders", time)`` is ``cut_at("demo", "orders", time)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from headrace.errors import InvalidNameError

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


class NamedCall(Protocol[P, T_co]):
    """A call about one stream, as its object has it."""

    @overload
    def __call__(self, scope: str, stream: str, *args: P.args, **kwargs: P.kwargs) -> T_co: ...

    @overload
    def __call__(self, name: str, /, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class Named(Generic[S_contra, P, T_co]):
    """What a type checker sees of a named method. In truth it is a function."""

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...

    @overload
    def __get__(self, instance: S_contra, owner: Any) -> NamedCall[P, T_co]: ...

    def __get__(self, instance: Any, owner: Any) -> Any:
        raise TypeError("only a type: what is called is the function that named() returns")


def named(method: Callable[Concatenate[S, str, str, P], T]) -> Named[S, P, T]:
    """Let a method of ``(scope, stream, ...)`` take ``("scope/stream", ...)`` as well.

    The call raises InvalidNameError if that is no name of a stream.
    """

    @functools.wraps(method)
    def call(self: Any, scope: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(scope, str) and "/" in scope:
            return method(self, *split_name(scope, "stream"), *args, **kwargs)
        if "stream" not in kwargs and (not args or not isinstance(args[0], str)):
            split_name(scope, "stream")  # raises
        return method(self, scope, *args, **kwargs)

    return cast("Named[S, P, T]", call)


def split_name(name: Any, noun: str) -> tuple[str, str]:
    """Take ``scope/stream`` apart, or the like of another ``noun``.

    Raises:
        InvalidNameError: it is not that.
    """
    scope, slash, rest = name.partition("/") if isinstance(name, str) else ("", "", "")
    if not scope or not slash or not rest or "/" in rest:
        raise InvalidNameError(f"{name!r} names no {noun}: it is 'scope/{noun}', or a scope and a {noun}")
    return scope, rest


def both_names(scope: str, rest: str | None, noun: str) -> tuple[str, str]:
    """Return two names that were given as such, or in one text. Raises as :func:`split_name`."""
    return split_name(scope, noun) if rest is None else (scope, rest)
