"""The contract of all that offers segments by name: what ``headrace.model.segment_access`` says of each verb.

Subclass :class:`SegmentAccessContract` and provide ``make``.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest

from headrace.errors import (
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentSealedError,
    SegmentTruncatedError,
    TableKeyMissingError,
    TableKeyVersionError,
    TableNotEmptyError,
)
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.model.segment_access import SegmentAccess
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey

A, B, ABSENT, TABLE = "scope/stream/a", "scope/stream/b", "scope/stream/absent", "scope/stream/table"
ATTRIBUTE = bytes(15) + b"\x09"
VERBS = [name for name in vars(SegmentAccess) if not name.startswith("_")]


def _parameters(offer: type) -> dict[str, list[tuple[str, object]]]:
    """Return names and defaults of the parameters of each verb."""
    signatures = {verb: inspect.signature(getattr(offer, verb)) for verb in VERBS}
    return {
        verb: [(each.name, each.default) for each in signature.parameters.values()]
        for verb, signature in signatures.items()
    }


class SegmentAccessContract:
    """One container's worth of segments or more, none of them there at the start of each test."""

    async def make(self) -> SegmentAccess:
        raise NotImplementedError

    # ---------------------------------------------------------------------------------- all verbs

    async def test_every_verb_takes_the_same_arguments(self) -> None:
        assert _parameters(type(await self.make())) == _parameters(SegmentAccess)

    async def test_a_segment_that_is_absent_is_refused_by_every_verb_about_one(self) -> None:
        access = await self.make()
        for call in (
            access.delete_segment(ABSENT),
            access.seal_segment(ABSENT),
            access.truncate_segment(ABSENT, 0),
            access.update_policy(ABSENT, 0, 0),
            access.segment_info(ABSENT),
            access.append(ABSENT, b"x"),
            access.read(ABSENT, 0, 1, wait=False),
            access.merge_batch(ABSENT, []),
            access.get_attribute(ABSENT, ATTRIBUTE),
            access.update_attribute(ABSENT, ATTRIBUTE, 1, ATTRIBUTE_NULL),
            access.delete_table(ABSENT, must_be_empty=False),
            access.table_update(ABSENT, [TableEntry(b"k", b"v")]),
            access.table_remove(ABSENT, [TableKey(b"k")]),
            access.table_get(ABSENT, [b"k"]),
            access.table_keys(ABSENT, b"", 1),
            access.table_entries(ABSENT, b"", 1),
        ):
            with pytest.raises(NoSuchSegmentError):
                await call

    # ---------------------------------------------------------------------------------- segments

    async def test_a_segment_is_created_once(self) -> None:
        access = await self.make()
        await access.create_segment(A)
        with pytest.raises(SegmentExistsError):
            await access.create_segment(A)
        info = await access.segment_info(A)
        assert (info.start_offset, info.length, info.sealed) == (0, 0, False)

    async def test_appends_are_read_where_they_begin(self) -> None:
        access = await self.make()
        await access.create_segment(A)
        assert [await access.append(A, data) for data in (b"abc", b"de")] == [0, 3]
        assert await access.append(A, b"f", expected_offset=5) == 5
        with pytest.raises(OffsetMismatchError):
            await access.append(A, b"g", expected_offset=5)
        read = await access.read(A, 1, 100, wait=False)
        assert (read.offset, read.to_bytes()) == (1, b"bcdef")
        end = await access.read(A, 6, 100, wait=False)
        assert (end.to_bytes(), end.at_tail, end.end_of_segment) == (b"", True, False)

    async def test_a_read_at_the_tail_waits_for_an_append(self) -> None:
        access = await self.make()
        await access.create_segment(A)
        reading = asyncio.ensure_future(access.read(A, 0, 100, wait=True))
        await asyncio.sleep(0)
        await access.append(A, b"abc")
        assert (await reading).to_bytes() == b"abc"

    async def test_a_sealed_segment_has_an_end(self) -> None:
        access = await self.make()
        for segment in (A, B):
            await access.create_segment(segment)
        await access.append(A, b"abc")
        assert await access.seal_segment(A) == 3
        for call in (access.seal_segment(A), access.append(A, b"d"), access.merge_batch(A, [B])):
            with pytest.raises(SegmentSealedError):
                await call
        assert (await access.segment_info(A)).sealed
        end = await access.read(A, 3, 100, wait=False)
        assert (end.to_bytes(), end.at_tail, end.end_of_segment) == (b"", False, True)

    async def test_what_was_truncated_is_gone(self) -> None:
        access = await self.make()
        await access.create_segment(A)
        await access.append(A, b"abcdef")
        await access.truncate_segment(A, 4)
        assert (await access.segment_info(A)).start_offset == 4
        for call in (access.truncate_segment(A, 3), access.read(A, 3, 1, wait=False)):
            with pytest.raises(SegmentTruncatedError) as refused:
                await call
            assert refused.value.start_offset == 4
        with pytest.raises((SegmentTruncatedError, InvalidArgumentError)):
            await access.truncate_segment(A, 7)
        assert (await access.read(A, 4, 9, wait=False)).to_bytes() == b"ef"

    async def test_many_segments_are_asked_for_and_deleted_at_once(self) -> None:
        access = await self.make()
        for segment in (A, B):
            await access.create_segment(segment)
        await access.append(B, b"abc")
        found = await access.segment_infos([B, ABSENT, A])
        assert [each and each.length for each in found] == [3, None, 0]
        await access.delete_segments([A, ABSENT, B])
        assert list(await access.segment_infos([A, B])) == [None, None]

    async def test_what_changed_is_told_once_more_after_a_change(self) -> None:
        access = await self.make()
        for segment in (A, B):
            await access.create_segment(segment)
        marker, changed = await access.changed_segments(b"")
        assert marker
        assert {(A, 0), (B, 0)} <= set(changed)
        await access.append(A, b"abc")
        assert (A, 3) in (await access.changed_segments(marker))[1]

    async def test_a_batch_is_merged_in_order_and_skips_what_is_gone(self) -> None:
        access = await self.make()
        for segment, data in ((A, b"a"), (B, b"bb")):
            await access.create_segment(segment)
            await access.append(segment, data)
        assert await access.merge_batch(A, [ABSENT, B]) == [1, 3]
        assert (await access.read(A, 0, 9, wait=False)).to_bytes() == b"abb"
        with pytest.raises(NoSuchSegmentError):
            await access.segment_info(B)

    async def test_an_attribute_changes_from_what_it_is(self) -> None:
        access = await self.make()
        await access.create_segment(A)
        assert await access.get_attribute(A, ATTRIBUTE) == ATTRIBUTE_NULL
        assert await access.update_attribute(A, ATTRIBUTE, 5, ATTRIBUTE_NULL)
        assert not await access.update_attribute(A, ATTRIBUTE, 6, ATTRIBUTE_NULL)
        assert await access.get_attribute(A, ATTRIBUTE) == 5

    # ---------------------------------------------------------------------------------- tables

    async def test_entries_are_put_on_conditions_all_or_none(self) -> None:
        access = await self.make()
        await access.create_table(TABLE)
        with pytest.raises(SegmentExistsError):
            await access.create_table(TABLE)
        (first,) = await access.table_update(TABLE, [TableEntry(b"k", b"1", NOT_EXISTS)])
        with pytest.raises(TableKeyVersionError):
            await access.table_update(TABLE, [TableEntry(b"l", b""), TableEntry(b"k", b"2", NOT_EXISTS)])
        with pytest.raises(TableKeyMissingError):
            await access.table_update(TABLE, [TableEntry(b"l", b"", first)])
        (second,) = await access.table_update(TABLE, [TableEntry(b"k", b"2", first)])
        assert second > first
        assert await access.table_get(TABLE, [b"l", b"k"]) == [None, TableEntry(b"k", b"2", second)]

    async def test_keys_are_removed_on_conditions(self) -> None:
        access = await self.make()
        await access.create_table(TABLE)
        versions = await access.table_update(TABLE, [TableEntry(b"k", b"1"), TableEntry(b"l", b"2")])
        with pytest.raises(TableKeyVersionError):
            await access.table_remove(TABLE, [TableKey(b"l"), TableKey(b"k", versions[1])])
        with pytest.raises(TableNotEmptyError):
            await access.delete_table(TABLE, must_be_empty=True)
        await access.table_remove(TABLE, [TableKey(b"k", versions[0]), TableKey(b"l")])
        assert await access.table_get(TABLE, [b"k", b"l"]) == [None, None]
        await access.delete_table(TABLE, must_be_empty=True)

    async def test_pages_have_every_entry_once(self) -> None:
        access = await self.make()
        await access.create_table(TABLE)
        values = {b"k%d" % n: b"v%d" % n for n in range(10)}
        await access.table_update(TABLE, [TableEntry(*each) for each in values.items()])
        keys: list[bytes] = []
        token = b""
        while page := (found := await access.table_keys(TABLE, token, 3))[0]:
            keys += [each.key for each in page]
            token = found[1]
        assert sorted(keys) == sorted(values)
        entries, _ = await access.table_entries(TABLE, b"", 100)
        assert {each.key: each.value for each in entries} == values
