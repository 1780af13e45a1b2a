"""How the kit uses a log: frames in, answers awaited, records out, and what a subclass supplies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.wal.contract import Wal, WalFrame


@dataclass
class Appended:
    """What became of frames given to a log."""

    addresses: list[int] = field(default_factory=list)
    errors: list[Exception | None] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)

    @property
    def acknowledged(self) -> list[bytes]:
        return [content for content, error in zip(self.contents, self.errors, strict=True) if error is None]


async def append_all(wal: Wal, contents: Sequence[bytes]) -> Appended:
    """Append ``contents``, as many in flight as the log lends frames; wait for all answers."""
    loop = asyncio.get_running_loop()
    result = Appended()
    answered = 0
    changed = loop.create_future()

    def done(frame: WalFrame, error: Exception | None) -> None:
        nonlocal answered
        answered += 1
        result.addresses.append(frame.address)
        result.errors.append(error)
        result.contents.append(bytes(frame.view[: frame.length]))
        wal.release_frame(frame)
        if not changed.done():
            changed.set_result(None)

    for content in contents:
        while (frame := wal.acquire_frame()) is None:
            await changed
            changed = loop.create_future()
        frame.view[: len(content)] = content
        frame.length = len(content)
        wal.append(frame, done)
    while answered < len(contents):
        await changed
        changed = loop.create_future()
    return result


async def read_all(wal: Wal) -> list[tuple[int, bytes]]:
    """Return address and content of every record."""
    return [(record.address, bytes(record.payload)) async for record in wal.records()]


async def read_contents(wal: Wal) -> list[bytes]:
    """Return the content of every record."""
    return [bytes(record.payload) async for record in wal.records()]


def numbered(count: int, start: int = 0, size: int = 40) -> list[bytes]:
    """Return ``count`` different contents."""
    return [
        b"%08d-" % number + bytes((number + i) & 255 for i in range(size))
        for number in range(start, start + count)
    ]


class WalKit:
    """What a kit asks of its subclass. Every test leaves its logs closed."""

    truncation_granularity_bytes = 0
    """How much a log may retain in front of its truncation point."""

    def make_wal(self) -> Wal:
        """Return a new, unopened log on the same storage."""
        raise NotImplementedError

    def fill_storage(self) -> bool:
        """Use up the space of the storage; return False if that cannot be done."""
        return False

    def free_storage(self) -> None:
        """Free plenty of space again."""
        raise NotImplementedError

    async def open_wal(self) -> Wal:
        wal = self.make_wal()
        await wal.open()
        return wal
