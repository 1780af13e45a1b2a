"""A chunk provider and a row store that fail on purpose, in every way their contracts allow.

Fault model. A modifying call may fail before it had any effect; it may have its effect and lose the reply; a
write may be torn, leaving a part of its bytes; it may stall for ever. The process may die at any of these
points: then the call raises :class:`ProcessGoneError`, which is never handled. Reads may
fail, be slow, and return flipped bits. What was acknowledged stays: losing acknowledged objects is not
something to survive but to detect, and tests do that by damaging ``MemoryChunkProvider.objects`` directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from headrace.errors import StorageFullError, StorageReadError, StorageWriteError, WalWriteError
from headrace.storage.metadata.contract import RowStore
from headrace.storage.providers.contract import Buffer, ChunkProvider
from headrace.storage.providers.files.local_chunks import LocalChunks
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper
from headrace.testing.failures import ProcessGoneError


class Fault(Enum):
    """What happens to one modifying call."""

    FAIL = "nothing happens, the outcome is reported as unknown"
    FULL = "nothing happens, the caller gets an error: no space"
    LOSE_REPLY = "it happens, the outcome is reported as unknown"
    TEAR = "half of the bytes are written, the outcome is reported as unknown"
    HANG = "nothing happens, the caller waits until it is cancelled"
    DIE_BEFORE = "the process dies, nothing happened"
    DIE_TORN = "the process dies, half of the bytes were written"
    DIE_AFTER = "the process dies, it happened"


@dataclass(frozen=True, slots=True)
class ModifyingCall:
    """One call a fault may hit: ``create``, ``append``, ``delete`` or ``commit``, and the object's name."""

    kind: str
    name: str


Injector = Callable[[ModifyingCall], Fault | None]


def no_faults(_: ModifyingCall) -> Fault | None:
    return None


class FaultyChunkProvider(ChunkProviderWrapper):
    """``inject`` decides about modifying calls; ``on_read`` is called before each read."""

    def __init__(self, provider: ChunkProvider, inject: Injector = no_faults) -> None:
        super().__init__(provider)
        self.inject = inject
        self.on_read: Callable[[str], None] = _accept
        self.delay_s: Callable[[str], float] = _no_delay
        self.calls: list[ModifyingCall] = []

    @property
    def local(self) -> LocalChunks | None:
        return None  # every read goes where faults and delays are

    async def create(
        self, name: str, buffers: Sequence[Buffer] = (), beside: Callable[[], None] | None = None
    ) -> None:
        fault = await self._begin("create", name)
        if fault is Fault.TEAR or fault is Fault.DIE_TORN:
            await self.provider.create(name, half_of(buffers))
        elif happens(fault):
            await self.provider.create(name, buffers, beside)
        end(fault, StorageWriteError(f"create {name}"))

    async def append(
        self, name: str, offset: int, buffers: Sequence[Buffer], beside: Callable[[], None] | None = None
    ) -> None:
        fault = await self._begin("append", name)
        if fault is Fault.TEAR or fault is Fault.DIE_TORN:
            await self.provider.append(name, offset, half_of(buffers))
        elif happens(fault):
            await self.provider.append(name, offset, buffers, beside)
        end(fault, StorageWriteError(f"append {name}"))

    async def delete(self, name: str) -> None:
        fault = await self._begin("delete", name)
        if happens(fault):
            await self.provider.delete(name)
        end(fault, StorageWriteError(f"delete {name}"))

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        await asyncio.sleep(self.delay_s(name))
        self.on_read(name)
        return await self.provider.read(name, offset, length)

    async def _begin(self, kind: str, name: str) -> Fault | None:
        await asyncio.sleep(self.delay_s(name))
        call = ModifyingCall(kind, name)
        self.calls.append(call)
        fault = self.inject(call)
        if fault is Fault.HANG:
            await asyncio.Event().wait()
        return fault


class FaultyRowStore:
    """Wraps a row store. A torn commit counts as lost: commits are atomic."""

    def __init__(self, rows: RowStore, inject: Injector = no_faults) -> None:
        self.rows = rows
        self.inject = inject
        self.get = rows.get
        self.load = rows.load
        self.find_existing = rows.find_existing
        self.part_of = rows.part_of

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        await asyncio.sleep(0)
        fault = self.inject(ModifyingCall("commit", " ".join(sorted(changes))))
        if happens(fault):
            await self.rows.commit(changes)
        end(fault, WalWriteError("commit"))


def fail_reads(_: str) -> None:
    """An ``on_read`` that fails."""
    raise StorageReadError("injected")


def happens(fault: Fault | None) -> bool:
    return fault in {None, Fault.LOSE_REPLY, Fault.DIE_AFTER}


def end(fault: Fault | None, unknown: Exception) -> None:
    """Raise what the caller of a call with this fault sees."""
    match fault:
        case None:
            return
        case Fault.DIE_BEFORE | Fault.DIE_TORN | Fault.DIE_AFTER:
            raise ProcessGoneError
        case Fault.FULL:
            raise StorageFullError("injected")
        case _:
            raise unknown


def half_of(buffers: Sequence[Buffer]) -> list[bytes]:
    content = b"".join(buffers)
    return [content[: len(content) // 2]]


def _accept(_: str) -> None:
    pass


def _no_delay(_: str) -> float:
    return 0.0
