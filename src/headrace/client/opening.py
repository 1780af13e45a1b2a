"""Something that takes a while to open: ``x = await opening`` or ``async with opening as x``."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from headrace.client.forks import OfOneProcess


class Closable(Protocol):
    """Whatever is closed when its block is left."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


T = TypeVar("T", bound=Closable)


class Opening(OfOneProcess, Generic[T]):
    """Use it once, either way."""

    __slots__ = ("__weakref__", "_coroutine", "_opened")
    _called = "the opening"

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._opened: T | None = None

    def __repr__(self) -> str:
        return "<headrace.aio.Opening: await it, or use it in 'async with'>"

    def _leave_to_parent(self) -> None:
        if inspect.getcoroutinestate(self._coroutine) == inspect.CORO_CREATED:
            self._coroutine.close()  # or Python complains that it never ran

    def __await__(self) -> Generator[Any, None, T]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._coroutine
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None
        await self._opened.__aexit__(kind, error, trace)
