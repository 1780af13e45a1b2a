"""Methods of the client of asyncio as methods that wait: ``create_scope = waits(Client.create_scope)``.

The types, the signature and the documentation are those of the method; only ``await`` is gone from all three.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from headrace.client.blocking.loop_iterator import LoopIterator
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.opening import Closable, Opening
from headrace.client.scoped_name import Named

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=Closable)
M = TypeVar("M")
X = TypeVar("X")
X_co = TypeVar("X_co", covariant=True)


class OnLoop(ABC, Generic[X_co]):
    """Has a twin that lives on the loop of a thread."""

    @abstractmethod
    def _start(self) -> tuple[LoopThread, X_co]:
        """Return the thread and the twin of this process; both are made if they are missing."""


def _like(method: Any, call: Callable[..., Any], result: str = "") -> Any:
    """Give ``call`` the name, the signature and the documentation of ``method``, but another ``result``."""
    functools.update_wrapper(call, method)
    call.__doc__ = without_await(method.__doc__ or "")
    if result:
        signature = inspect.signature(method).replace(return_annotation=result)
        call.__signature__ = signature  # type: ignore[attr-defined] # what ``help`` looks at
    return call


def like(method: Any) -> Callable[[F], F]:
    """Give a function the documentation of the method that it stands for."""

    def give(function: F) -> F:
        function.__doc__ = without_await(method.__doc__ or "")
        return function

    return give


def without_await(text: str) -> str:
    """Return documentation of the client of asyncio as that of the one that waits."""
    for old, new in (("async with ", "with "), ("async for ", "for "), ("await ", ""), (".aio.", ".")):
        text = text.replace(old, new)
    return text


@overload
def waits(method: Named[X, P, Coroutine[Any, Any, T]]) -> Named[OnLoop[X], P, T]: ...


@overload
def waits(
    method: Callable[Concatenate[X, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[OnLoop[X], P], T]: ...


def waits(method: Any) -> Any:
    """Return the method that waits for what ``method`` returns."""

    def call(self: OnLoop[Any], *args: Any, **kwargs: Any) -> Any:
        thread, twin = self._start()
        return thread.run(method(twin, *args, **kwargs))

    return _like(method, call)


@overload
def iterates(method: Named[X, P, AsyncIterator[T]]) -> Named[OnLoop[X], P, Iterator[T]]: ...


@overload
def iterates(
    method: Callable[Concatenate[X, P], AsyncIterator[T]],
) -> Callable[Concatenate[OnLoop[X], P], Iterator[T]]: ...


def iterates(method: Any) -> Any:
    """Return the method whose iterator waits for each item."""

    def call(self: OnLoop[Any], *args: Any, **kwargs: Any) -> Any:
        thread, twin = self._start()
        return LoopIterator(thread, method(twin, *args, **kwargs))

    return _like(method, call, method.__annotations__["return"].removeprefix("Async"))


@overload
def opens(
    method: Named[X, P, Opening[C]], face: Callable[[C, LoopThread], T], name: str = ""
) -> Named[OnLoop[X], P, T]: ...


@overload
def opens(
    method: Callable[Concatenate[X, P], Opening[C]], face: Callable[[C, LoopThread], T], name: str = ""
) -> Callable[Concatenate[OnLoop[X], P], T]: ...


def opens(method: Any, face: Callable[[Any, LoopThread], Any], name: str = "") -> Any:
    """Return the method that waits until something is open, and returns its ``face`` for threads.

    ``name`` is that of its type, unless ``face`` is the type.
    """

    def call(self: OnLoop[Any], *args: Any, **kwargs: Any) -> Any:
        thread, twin = self._start()

        async def opened() -> Any:
            return face(await method(twin, *args, **kwargs), thread)

        return thread.run(opened())

    return _like(method, call, name or face.__name__)


def makes(method: Named[X, P, M], face: Callable[[M, LoopThread], T]) -> Named[OnLoop[X], P, T]:
    """Return the method that makes something on the loop, and returns its ``face`` for threads."""
    make: Any = method

    def call(self: OnLoop[Any], *args: Any, **kwargs: Any) -> Any:
        thread, twin = self._start()
        return thread.call(lambda: face(make(twin, *args, **kwargs), thread))

    made: Named[OnLoop[X], P, T] = _like(method, call, face.__name__)
    return made
