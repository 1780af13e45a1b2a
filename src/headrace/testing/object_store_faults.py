"""An object store across a network that is slow and loses things, for the processes of one simulation.

Fault model:

* A call takes some time before it has its effect, and some until its answer arrives.
* A call may be refused: nothing happens. In a storm, for a while, every call is.
* The answer to a change may be lost.
* A call may be slow: it has its effect much later, whether its caller waits, has given up, or was killed. So
  an object may appear after its creation was given up, and a deletion may arrive late.
* The connection may break while a change is under way: its caller gets an error now, it happens later.
* An object of the same name may be there first, with other bytes: a stranger's.

What has happened is seen by every later call, listings included, and stays. The store lives outside of all
simulated processes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeVar

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    HeadraceError,
    NoSuchChunkError,
    StorageReadError,
    StorageWriteError,
    UnsupportedError,
)
from headrace.runtime.entropy import Entropy
from headrace.storage.providers.contract import (
    LIST_PAGE_OBJECTS_MAX,
    Buffer,
    ChunkObject,
    check_chunk_name,
)
from headrace.storage.providers.files.local_chunks import LocalChunks
from headrace.testing.storage_faults import ModifyingCall

T = TypeVar("T")

_READS: Final = frozenset({"read", "info", "list"})


class Moment(Enum):
    """When ``on_change`` is called."""

    BEFORE = auto()
    AFTER = auto()


@dataclass(slots=True)
class ObjectStoreFaults:
    """What may happen. May be changed at any time."""

    latency_s_max: float = 0.0
    """Of each way."""
    refused_per_thousand: int = 0
    lost_replies_per_thousand: int = 0
    """Of changes."""
    slow_per_thousand: int = 0
    broken_per_thousand: int = 0
    """Of changes: the error is early, the effect late."""
    slow_s_max: float = 0.0
    strangers_per_thousand: int = 0
    """Of creations."""
    storm_every_s: float = 0.0
    storm_s: float = 0.0
    """So long, at the beginning of each such interval, every call is refused."""


class _Fate(Enum):
    USUAL = auto()
    REFUSED = auto()
    LOST_REPLY = auto()
    SLOW = auto()
    BROKEN = auto()


class FaultyObjectStore:
    """A ChunkProvider that any process of a simulation may use; see the fault model.

    ``objects`` is open to tests. ``on_change`` is called before and after each change, wherever its caller
    is. ``calls`` counts calls by kind, a page of a listing as one.
    """

    def __init__(
        self,
        entropy: Entropy,
        faults: ObjectStoreFaults | None = None,
        *,
        supports_append: bool = False,
        page_objects_max: int = LIST_PAGE_OBJECTS_MAX,
    ) -> None:
        self.faults = faults or ObjectStoreFaults()
        self.objects: dict[str, bytearray] = {}
        self.calls: Counter[str] = Counter()
        self._under_way = 0
        self._idle = asyncio.Event()
        self.on_change: Callable[[ModifyingCall, Moment], None] = _ignore
        self._entropy = entropy
        self._supports_append = supports_append
        self._page_objects_max = page_objects_max

    @property
    def supports_append(self) -> bool:
        return self._supports_append

    @property
    def local(self) -> LocalChunks | None:
        return None

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        check_chunk_name(name)
        content = bytearray().join(buffers)
        if beside is not None:
            beside()

        def effect() -> None:
            if name not in self.objects and self._draws(self.faults.strangers_per_thousand):
                self.objects[name] = bytearray(self._entropy.token(1 + self._entropy.randbelow(100)))
            if name in self.objects:
                raise ChunkExistsError(name)
            self.objects[name] = content

        await self._call("create", name, effect)

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        if not self._supports_append:
            raise UnsupportedError("this store cannot append")
        content = bytearray().join(buffers)
        if beside is not None:
            beside()

        def effect() -> None:
            found = self._get(name)
            if offset != len(found):
                raise ChunkOffsetError(name, offset, len(found))
            found += content

        await self._call("append", name, effect)

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        def effect() -> memoryview:
            found = self._get(name)
            if offset < 0 or length < 0 or offset + length > len(found):
                raise ChunkOffsetError(name, offset + length, len(found))
            return memoryview(bytes(found[offset : offset + length]))

        return await self._call("read", name, effect)

    async def delete(self, name: str) -> None:
        def effect() -> None:
            self.objects.pop(name, None)

        await self._call("delete", name, effect)

    async def info(self, name: str) -> ChunkObject:
        return await self._call("info", name, lambda: ChunkObject(name, len(self._get(name))))

    async def list(self, prefix: str = "") -> AsyncIterator[list[ChunkObject]]:
        last = ""

        def effect() -> list[ChunkObject]:
            names = sorted(name for name in self.objects if name.startswith(prefix) and name > last)
            return [ChunkObject(name, len(self.objects[name])) for name in names[: self._page_objects_max]]

        while page := await self._call("list", prefix, effect):
            last = page[-1].name
            yield page

    async def close(self) -> None:
        """Nothing to release."""

    async def settle(self) -> None:
        """Wait until every call has had its effect, also those whose callers have given up."""
        if self._under_way:
            await self._idle.wait()

    # ---------------------------------------------------------------------------------- inside

    async def _call(self, kind: str, name: str, effect: Callable[[], T]) -> T:
        self.calls[kind] += 1
        faults, fate = self.faults, self._draw_fate(kind)
        unknown = (StorageReadError if kind in _READS else StorageWriteError)(f"{kind} {name}: {fate.name}")
        if fate is _Fate.REFUSED:
            await self._go()
            raise unknown
        loop = asyncio.get_running_loop()
        arrival: asyncio.Future[tuple[Any, HeadraceError | None]] = loop.create_future()

        def arrive() -> None:
            outcome = self._have_effect(kind, name, effect)
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
            if not arrival.done():
                arrival.set_result(outcome)

        way_s = faults.latency_s_max if fate in {_Fate.USUAL, _Fate.LOST_REPLY} else faults.slow_s_max
        self._under_way += 1
        self._idle.clear()
        loop.call_later(way_s * self._entropy.random(), arrive, context=Context())
        if fate is _Fate.BROKEN:
            await self._go()
            raise unknown
        value, error = await arrival
        await self._go()
        if fate is _Fate.LOST_REPLY:
            raise unknown
        if error is not None:
            raise error
        found: T = value
        return found

    def _have_effect(
        self, kind: str, name: str, effect: Callable[[], T]
    ) -> tuple[T | None, HeadraceError | None]:
        call = None if kind in _READS else ModifyingCall(kind, name)
        if call is not None:
            self.on_change(call, Moment.BEFORE)
        try:
            value = effect()
        except HeadraceError as error:
            return None, error
        if call is not None:
            self.on_change(call, Moment.AFTER)
        return value, None

    async def _go(self) -> None:
        await asyncio.sleep(self.faults.latency_s_max * self._entropy.random())

    def _draw_fate(self, kind: str) -> _Fate:
        faults = self.faults
        if faults.storm_s and asyncio.get_running_loop().time() % faults.storm_every_s < faults.storm_s:
            return _Fate.REFUSED
        chances = [(_Fate.REFUSED, faults.refused_per_thousand), (_Fate.SLOW, faults.slow_per_thousand)]
        if kind not in _READS:
            chances += [
                (_Fate.LOST_REPLY, faults.lost_replies_per_thousand),
                (_Fate.BROKEN, faults.broken_per_thousand),
            ]
        drawn = self._entropy.randbelow(1000)
        for fate, per_thousand in chances:
            if drawn < per_thousand:
                return fate
            drawn -= per_thousand
        return _Fate.USUAL

    def _draws(self, per_thousand: int) -> bool:
        return per_thousand > 0 and self._entropy.randbelow(1000) < per_thousand

    def _get(self, name: str) -> bytearray:
        try:
            return self.objects[name]
        except KeyError:
            raise NoSuchChunkError(name) from None


def _ignore(_: ModifyingCall, __: Moment) -> None:
    pass
