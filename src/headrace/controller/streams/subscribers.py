"""Which reader groups retain the data of a stream, and how far each has come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import details_table, subscribers_key
from headrace.controller.store.rows.group_row import (
    Subscriber,
    SubscribersRow,
    decode_subscribers,
    encode_subscribers,
)
from headrace.controller.streams.cuts import PlacedCut, relate_cuts, sorted_cut
from headrace.controller.streams.stream import Stream
from headrace.errors import (
    InvalidArgumentError,
    MetadataConflictError,
    NoSuchReaderGroupError,
    PreconditionError,
    ThrottledError,
    UnknownOutcomeError,
)
from headrace.model.stream_cut import Relation

SUBSCRIBERS_MAX: Final = 1000
_ATTEMPTS_MAX: Final = 50

Change = Callable[[SubscribersRow], Awaitable[SubscribersRow]]


class Subscribers:
    """One row per stream. Used on the controller's loop."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def names(self, stream: Stream) -> list[str]:
        """Return ``scope/group`` of every subscriber."""
        return sorted((await self._read(stream))[0].subscribers)

    async def cuts(self, stream: Stream) -> list[dict[int, int]]:
        """Return the last reported position of each subscriber that has reported one."""
        subscribers = (await self._read(stream))[0].subscribers
        return [dict(subscribers[name].cut) for name in sorted(subscribers) if subscribers[name].cut]

    async def add(self, stream: Stream, name: str, group_id: bytes, generation: int) -> None:
        """Make the group a subscriber of this generation; what it reported so far stays."""

        async def change(row: SubscribersRow) -> SubscribersRow:
            present = row.subscribers.get(name)
            if present is None or present.group_id != group_id:
                present = Subscriber(group_id, generation)
            elif present.generation == generation:
                return row
            if len(row.subscribers) >= SUBSCRIBERS_MAX and name not in row.subscribers:
                raise ThrottledError(f"{len(row.subscribers)} groups retain the data of {stream.full_name}")
            return SubscribersRow({**row.subscribers, name: replace(present, generation=generation)})

        await self._change(stream, change)

    async def remove(self, stream: Stream, name: str, group_id: bytes) -> None:
        """The group holds the stream's data no more; a later one of its name may."""

        async def change(row: SubscribersRow) -> SubscribersRow:
            if name not in row.subscribers or row.subscribers[name].group_id != group_id:
                return row
            return SubscribersRow({each: value for each, value in row.subscribers.items() if each != name})

        await self._change(stream, change)

    async def report(
        self, stream: Stream, name: str, group_id: bytes, generation: int, cut: Mapping[int, int]
    ) -> None:
        """Note that the group needs nothing before ``cut``.

        Raises:
            NoSuchReaderGroupError: the group is no subscriber, or was created anew.
            PreconditionError: it is of another generation.
            InvalidArgumentError: the cut is not valid or behind the last one.
        """
        cuts = stream.cuts()
        placed: PlacedCut | None = None

        async def change(row: SubscribersRow) -> SubscribersRow:
            present = row.subscribers.get(name)
            if present is None or present.group_id != group_id:
                raise NoSuchReaderGroupError(f"{name!r} is no subscriber of {stream.full_name}")
            if present.generation != generation:
                raise PreconditionError(f"{name!r} is of generation {present.generation}, not {generation}")
            nonlocal placed
            if placed is None:
                placed = await cuts.check(cut)
            last = await cuts.place(dict(present.cut)) if present.cut else None
            if last is not None and relate_cuts(placed, last) is not Relation.EQUAL_OR_AFTER:
                raise InvalidArgumentError("the cut lies before the one reported last")
            reported = replace(present, cut=sorted_cut(cut))
            return row if reported == present else SubscribersRow({**row.subscribers, name: reported})

        await self._change(stream, change)

    async def _read(self, stream: Stream) -> tuple[SubscribersRow, int]:
        found = await self._store.get(details_table(stream.uid), subscribers_key(stream.uid))
        if found is None:
            return SubscribersRow(), ABSENT
        return decode_subscribers(found.value), found.version

    async def _change(self, stream: Stream, change: Change) -> None:
        for _ in range(_ATTEMPTS_MAX):
            row, version = await self._read(stream)
            changed = await change(row)
            if changed is row:
                return
            write = Write(subscribers_key(stream.uid), encode_subscribers(changed), version)
            try:
                await self._store.update(details_table(stream.uid), [write])
            except (MetadataConflictError, UnknownOutcomeError):
                continue
            return
        raise MetadataConflictError(
            f"subscribers of {stream.full_name} are changed by too many callers at once"
        )
