"""Makes the requests of plans, and creates records: calls to the store, repeated where that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    DataCorruptionError,
    HeadraceError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
    WalWriteError,
)
from headrace.wal.objects.creation import Creation, Put, Step
from headrace.wal.objects.log_objects import Buffer, LogObjects
from headrace.wal.objects.object_format import (
    HEADER_BYTES,
    OBJECT_BYTES_MAX,
    LogObject,
    ObjectHeader,
    decode_object,
    encode_object,
)
from headrace.wal.objects.object_names import check_header
from headrace.wal.objects.requests import Create, Delete, Plan, Read, Request

R = TypeVar("R")
T = TypeVar("T")

CALLS_AT_ONCE: Final = 32
"""Requests of plans to the store, which bounds them too."""

PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Between attempts of one call."""


class ObjectCalls:
    """All calls of one log."""

    def __init__(self, store: LogObjects) -> None:
        self._store = store
        self._slots = asyncio.Semaphore(CALLS_AT_ONCE)

    async def run(self, plan: Plan[R]) -> R:
        """Make the requests of a plan; return its result.

        Raises:
            WalWriteError: the store does not answer, or not clearly.
            StorageFullError: it has no space for an object of the plan.
        """
        try:
            requests = next(plan)
            while True:
                try:
                    answers = await self._answer(requests)
                except HeadraceError as error:
                    requests = plan.throw(error)
                else:
                    requests = plan.send(answers)
        except StopIteration as end:
            result: R = end.value
            return result
        finally:
            plan.close()

    async def _answer(self, requests: Sequence[Request]) -> list[Any]:
        if len(requests) == 1:
            return [await self._make(requests[0])]
        answers = await asyncio.gather(*map(self._make, requests), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def _make(self, request: Request) -> object:
        async with self._slots:
            match request:
                case Create():
                    return await self.create(request.name, request.header)
                case Read():
                    return await self.read(request.name, request.length)
                case Delete():
                    return await self._delete(request.name)
                case _:
                    return await self.list_lengths(request.prefix)

    # ---------------------------------------------------------------------------------- creating

    async def create(
        self, name: str, header: ObjectHeader, frames: Sequence[Buffer] = ()
    ) -> LogObject | None:
        """Create an object: None if it is there, else the one that has its name.

        Raises:
            StorageFullError: there is no space; it did not happen.
            WalWriteError: whether it happened stays unknown.
        """
        buffers = encode_object(header, frames)
        creation = Creation(header)
        failure: Exception | None = None
        while True:
            match creation.step:
                case Step.PUT:
                    if creation.attempts:
                        await asyncio.sleep(PAUSES_S[min(creation.attempts, len(PAUSES_S)) - 1])
                    outcome, failure = await self._put(name, buffers)
                    creation.on_put(outcome)
                case Step.LOOK:
                    creation.on_look(await self.read(name))
                case Step.OURS:
                    return None
                case Step.TAKEN:
                    return creation.found
                case Step.FULL:
                    raise StorageFullError(f"the store of the log has no space for {name}: {failure}")
                case Step.GIVE_UP:
                    raise WalWriteError(f"whether {name} was created is unknown: {failure}") from failure

    async def _put(self, name: str, buffers: Sequence[Buffer]) -> tuple[Put, Exception | None]:
        try:
            await self._store.create(name, buffers)
        except ChunkExistsError as error:
            return Put.EXISTS, error
        except StorageFullError as error:
            return Put.FULL, error
        except StorageWriteError as error:
            return Put.UNKNOWN, error
        return Put.CREATED, None

    # ---------------------------------------------------------------------------------- reading

    async def read(self, name: str, length: int | None = None) -> LogObject | None:
        """Return an object, None if there is none. ``length``: if it is known.

        Raises:
            DataCorruptionError: it is damaged.
            WalWriteError: the store does not answer.
        """
        return await self._repeat(f"reading {name}", lambda: self._read(name, length))

    async def _read(self, name: str, length: int | None) -> LogObject | None:
        try:
            if length is None:
                length = (await self._store.info(name)).length
            if length > OBJECT_BYTES_MAX + HEADER_BYTES:
                raise DataCorruptionError(f"the object has {length} bytes", path=name)
            raw = await self._store.read(name, 0, length)
        except NoSuchChunkError:
            return None
        except ChunkOffsetError as error:
            raise DataCorruptionError(f"the object has less than {length} bytes", path=name) from error
        found = decode_object(raw, name)
        check_header(found.header, name)
        return found

    async def list_lengths(self, prefix: str) -> dict[str, int]:
        """Return names and lengths of the objects below ``prefix``.

        Raises:
            WalWriteError: the store does not answer.
        """
        return await self._repeat(f"listing {prefix}", lambda: self._list(prefix))

    async def _list(self, prefix: str) -> dict[str, int]:
        found: dict[str, int] = {}
        async for page in self._store.list(prefix):
            found.update((each.name, each.length) for each in page)
        return found

    async def _repeat(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        for pause_s in (*PAUSES_S, None):
            try:
                return await call()
            except StorageReadError as error:
                if pause_s is None:
                    raise WalWriteError(f"{what} in the store of the log failed: {error}") from error
                await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _delete(self, name: str) -> bool:
        try:
            await self._store.delete(name)
        except StorageWriteError:
            return False
        return True
