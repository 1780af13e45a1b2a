"""The contract of all that offers segments by name: what ``headrace.model.segment_access`` says of each verb.

Subclass :class:`SegmentAccessContract` and provide ``make``, which returns one without segments of the scope
``s``.
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
from headrace.limits import BULK_NAMES_MAX
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.model.segment_access import SegmentAccess
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey

A, B, ABSENT = "s/a/0.#epoch.0", "s/b/0.#epoch.0", "s/absent/0.#epoch.0"
TABLE = "s/t_kvtable/0.#epoch.0"
ATTRIBUTE = bytes(range(16, 32))
VERBS = [name for name in vars(SegmentAccess) if not name.startswith("_")]


def _parameters(offer: type) -> dict[str, list[tuple[str, object]]]:
    """Return names and defaults of the parameters of each verb."""
    signatures = {verb: inspect.signature(getattr(offer, verb)) for verb in VERBS}
    return {
        verb: [(each.name, each.default) for each in signature.parameters.values()]
        for verb, signature in signatures.items()
    }


class SegmentAccessContract:
    """One container's worth of segments or more."""

    async def make(self) -> SegmentAccess:
        raise NotImplementedError

    async def made(self, *segments: str, data: bytes = b"") -> SegmentAccess:
        access = await self.make()
        for segment in segments:
            await access.create_segment(segment)
            if data:
                await access.append(segment, data)
        return access

    # ---- all verbs

    async def test_every_verb_takes_the_same_arguments(self) -> None:
        assert _parameters(type(await self.make())) == _parameters(SegmentAccess)

    # ---- segments

    async def test_a_segment_is_made_once(self) -> None:
        access = await self.made(A)
        with pytest.raises(SegmentExistsError):
            await access.create_segment(A)
        facts = await access.segment_info(A)
        assert (facts.start_offset, facts.length, facts.sealed) == (0, 0, False)

    async def test_what_does_not_exist_is_missed_by_every_call(self) -> None:
        access = await self.make()
        for call in (
            access.delete_segment(ABSENT),
            access.seal_segment(ABSENT),
            access.truncate_segment(ABSENT, 0),
            access.update_policy(ABSENT, 1, 1),
            access.segment_info(ABSENT),
            access.append(ABSENT, b"x"),
            access.append(ABSENT, b"x", expected_offset=0),
            access.read(ABSENT, 0, 10, wait=False),
            access.read(ABSENT, 0, 10, wait=True),
            access.merge_batch(ABSENT, []),
            access.get_attribute(ABSENT, ATTRIBUTE),
            access.update_attribute(ABSENT, ATTRIBUTE, 1, ATTRIBUTE_NULL),
            access.delete_table(ABSENT, must_be_empty=False),
            access.table_get(ABSENT, [b"k"]),
            access.table_update(ABSENT, [TableEntry(b"k", b"v", NO_VERSION)]),
            access.table_remove(ABSENT, [TableKey(b"k", NO_VERSION)]),
            access.table_keys(ABSENT, b"", 10),
            access.table_entries(ABSENT, b"", 10),
        ):
            with pytest.raises(NoSuchSegmentError) as raised:
                await call
            assert raised.value.segment == ABSENT

    async def test_a_deleted_segment_is_gone_and_its_name_is_free(self) -> None:
        access = await self.made(A, data=b"abc")
        await access.delete_segment(A)
        with pytest.raises(NoSuchSegmentError):
            await access.delete_segment(A)
        await access.create_segment(A)
        assert (await access.segment_info(A)).length == 0

    async def test_a_sealed_segment_has_its_final_length_and_takes_nothing_more(self) -> None:
        access = await self.made(A, data=b"abc")
        assert await access.seal_segment(A) == 3
        with pytest.raises(SegmentSealedError):
            await access.seal_segment(A)
        for offset in (-1, 3):
            with pytest.raises(SegmentSealedError):
                await access.append(A, b"d", expected_offset=offset)
        facts = await access.segment_info(A)
        assert (facts.length, facts.sealed) == (3, True)

    async def test_truncation_moves_the_start_between_start_and_length(self) -> None:
        access = await self.made(A, data=b"abcdef")
        await access.truncate_segment(A, 4)
        await access.truncate_segment(A, 4)
        with pytest.raises(SegmentTruncatedError) as raised:
            await access.truncate_segment(A, 2)
        assert raised.value.start_offset == 4
        with pytest.raises((SegmentTruncatedError, InvalidArgumentError)):
            await access.truncate_segment(A, 7)
        facts = await access.segment_info(A)
        assert (facts.start_offset, facts.length) == (4, 6)

    # ---- many segments

    async def test_facts_of_many_come_in_the_order_of_their_names(self) -> None:
        access = await self.made(A, B, data=b"abc")
        await access.seal_segment(B)
        await access.truncate_segment(A, 1)
        found = await access.segment_infos([B, ABSENT, A, B])
        assert [each and (each.start_offset, each.length, each.sealed) for each in found] == [
            (0, 3, True),
            None,
            (1, 3, False),
            (0, 3, True),
        ]
        assert list(await access.segment_infos([])) == []

    async def test_many_are_deleted_and_absent_ones_are_done_already(self) -> None:
        access = await self.made(A, B)
        for _ in range(2):
            await access.delete_segments([A, ABSENT, B])
        assert list(await access.segment_infos([A, B])) == [None, None]
        await access.delete_segments([])

    async def test_as_many_as_one_call_takes_and_no_more(self) -> None:
        access = await self.made(A)
        names = [f"s/many/{number}.#epoch.0" for number in range(BULK_NAMES_MAX - 1)]
        found = await access.segment_infos([*names, A])
        assert [each is None for each in found] == [True] * (BULK_NAMES_MAX - 1) + [False]

    async def test_what_changed_is_told_with_its_length_and_later_not_what_did_not(self) -> None:
        access = await self.made(A, data=b"abc")
        marker, changed = await access.changed_segments(b"")
        assert (A, 3) in changed
        await access.create_segment(B)
        await access.append(B, b"de")
        _, changed = await access.changed_segments(marker)
        assert (B, 2) in changed

    # ---- bytes

    async def test_appends_begin_where_the_former_ones_end(self) -> None:
        access = await self.made(A)
        offsets = [await access.append(A, data) for data in (b"ab", bytearray(b"cde"), memoryview(b"f"))]
        assert offsets == [0, 2, 5]
        assert (await access.read(A, 0, 100, wait=False)).to_bytes() == b"abcdef"

    async def test_appends_at_once_are_all_there_once(self) -> None:
        access = await self.made(A)
        pieces = [b"<%03d>" % number for number in range(200)]
        offsets = await asyncio.gather(*(access.append(A, piece) for piece in pieces))
        assert sorted(offsets, key=lambda offset: offset or 0) == [5 * number for number in range(200)]
        data = (await access.read(A, 0, 2000, wait=False)).to_bytes()
        assert [data[offset : offset + 5] for offset in map(int, map(str, offsets))] == pieces

    async def test_a_conditional_append_happens_at_its_offset_only(self) -> None:
        access = await self.made(A)
        assert await access.append(A, b"abc", expected_offset=0) == 0
        assert await access.append(A, b"de", expected_offset=3) == 3
        for expected in (0, 4, 6):
            with pytest.raises(OffsetMismatchError) as raised:
                await access.append(A, b"x", expected_offset=expected)
            assert (raised.value.expected, raised.value.actual) == (expected, 5)
        assert await access.append(A, b"f", expected_offset=5) == 5
        assert (await access.segment_info(A)).length == 6

    async def test_large_appends_are_read_in_pieces(self) -> None:
        access = await self.made(A)
        data = bytes(range(256)) * (1 << 12)
        await access.append(A, data)
        found = b""
        while len(found) < len(data):
            piece = await access.read(A, len(found), 300_000, wait=False)
            taken = piece.to_bytes()
            assert piece.offset == len(found)
            assert 0 < len(taken) <= 300_000
            found += taken
        assert found == data

    async def test_a_read_at_the_tail_is_empty_or_waits(self) -> None:
        access = await self.made(A, data=b"abc")
        found = await access.read(A, 3, 10, wait=False)
        assert (found.to_bytes(), found.at_tail, found.end_of_segment) == (b"", True, False)
        waiting = asyncio.ensure_future(access.read(A, 3, 10, wait=True))
        await access.append(A, b"def")
        assert (await waiting).to_bytes() == b"def"

    async def test_a_read_at_the_end_of_a_sealed_segment_says_so(self) -> None:
        access = await self.made(A, data=b"abc")
        await access.seal_segment(A)
        for wait in (False, True):
            found = await access.read(A, 0, 10, wait=wait)
            assert (found.to_bytes(), found.end_of_segment) == (b"abc", True)
            found = await access.read(A, 3, 10, wait=wait)
            assert (found.to_bytes(), found.end_of_segment) == (b"", True)

    async def test_a_read_below_the_start_is_refused(self) -> None:
        access = await self.made(A, data=b"abcdef")
        await access.truncate_segment(A, 3)
        for wait in (False, True):
            with pytest.raises(SegmentTruncatedError) as raised:
                await access.read(A, 2, 10, wait=wait)
            assert raised.value.start_offset == 3

    async def test_a_read_that_is_cancelled_disturbs_no_other(self) -> None:
        access = await self.made(A)
        waiting = asyncio.ensure_future(access.read(A, 0, 10, wait=True))
        await access.segment_info(A)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await access.append(A, b"abc")
        assert (await access.read(A, 0, 10, wait=True)).to_bytes() == b"abc"

    # ---- merges

    async def test_sources_are_merged_in_order_and_what_is_gone_is_skipped(self) -> None:
        sources = [f"{A}#transaction.{number:032x}" for number in range(3)]
        access = await self.made(A, data=b"0")
        for number in (0, 2):
            await access.create_segment(sources[number])
            await access.append(sources[number], b"%d%d" % (number, number))
        assert await access.merge_batch(A, sources) == [3, 3, 5]
        assert await access.merge_batch(A, sources) == [5, 5, 5]
        assert (await access.read(A, 0, 10, wait=False)).to_bytes() == b"00022"
        assert list(await access.segment_infos(sources)) == [None] * 3

    async def test_nothing_is_merged_into_a_sealed_target(self) -> None:
        source = f"{A}#transaction.{1:032x}"
        access = await self.made(A, source, data=b"x")
        await access.seal_segment(A)
        with pytest.raises(SegmentSealedError) as raised:
            await access.merge_batch(A, [source])
        assert raised.value.segment == A

    # ---- attributes

    async def test_an_attribute_is_set_if_it_is_as_expected(self) -> None:
        access = await self.made(A)
        assert await access.get_attribute(A, ATTRIBUTE) == ATTRIBUTE_NULL
        assert await access.update_attribute(A, ATTRIBUTE, 5, ATTRIBUTE_NULL)
        assert not await access.update_attribute(A, ATTRIBUTE, 6, ATTRIBUTE_NULL)
        assert await access.update_attribute(A, ATTRIBUTE, 7, 5)
        assert await access.get_attribute(A, ATTRIBUTE) == 7

    # ---- tables

    async def table(self, *entries: tuple[bytes, bytes]) -> SegmentAccess:
        access = await self.make()
        await access.create_table(TABLE)
        if entries:
            await access.table_update(TABLE, [TableEntry(key, value, NOT_EXISTS) for key, value in entries])
        return access

    async def test_a_table_is_made_once_and_deleted_when_it_is_empty(self) -> None:
        access = await self.table((b"k", b"v"))
        with pytest.raises(SegmentExistsError):
            await access.create_table(TABLE)
        with pytest.raises(TableNotEmptyError):
            await access.delete_table(TABLE, must_be_empty=True)
        await access.table_remove(TABLE, [TableKey(b"k", NO_VERSION)])
        await access.delete_table(TABLE, must_be_empty=True)
        with pytest.raises(NoSuchSegmentError):
            await access.delete_table(TABLE, must_be_empty=False)

    async def test_entries_are_found_under_their_keys(self) -> None:
        access = await self.table()
        versions = await access.table_update(
            TABLE, [TableEntry(b"k", b"v", NO_VERSION), TableEntry(b"empty", b"", NO_VERSION)]
        )
        found = await access.table_get(TABLE, [b"empty", b"none", b"k"])
        assert found == [
            TableEntry(b"empty", b"", versions[1]),
            None,
            TableEntry(b"k", b"v", versions[0]),
        ]

    async def test_conditions_hold_or_nothing_changes(self) -> None:
        access = await self.table((b"k", b"v"))
        (entry,) = await access.table_get(TABLE, [b"k"])
        assert entry is not None
        new = TableEntry(b"new", b"n", NOT_EXISTS)
        with pytest.raises(TableKeyVersionError):
            await access.table_update(TABLE, [new, TableEntry(b"k", b"w", entry.version + 1)])
        with pytest.raises(TableKeyVersionError):
            await access.table_update(TABLE, [new, TableEntry(b"k", b"w", NOT_EXISTS)])
        with pytest.raises(TableKeyMissingError):
            await access.table_update(TABLE, [new, TableEntry(b"none", b"w", 0)])
        with pytest.raises(TableKeyVersionError):
            await access.table_remove(TABLE, [TableKey(b"k", entry.version + 1)])
        assert await access.table_get(TABLE, [b"k", b"new"]) == [entry, None]
        await access.table_update(TABLE, [new, TableEntry(b"k", b"w", entry.version)])
        (entry,) = await access.table_get(TABLE, [b"k"])
        assert entry is not None
        await access.table_remove(TABLE, [TableKey(b"k", entry.version)])
        assert await access.table_get(TABLE, [b"k"]) == [None]

    async def test_pages_have_every_entry_once(self) -> None:
        wanted = {b"key-%d" % number: b"value-%d" % number for number in range(100)}
        access = await self.table(*wanted.items())
        found: dict[bytes, bytes] = {}
        keys: list[bytes] = []
        token = b""
        while page := await access.table_entries(TABLE, token, 30):
            entries, token = page
            if not entries:
                break
            assert len(entries) <= 30
            assert not found.keys() & {entry.key for entry in entries}
            found.update((entry.key, entry.value) for entry in entries)
        token = b""
        while page_of_keys := await access.table_keys(TABLE, token, 30):
            some, token = page_of_keys
            if not some:
                break
            keys += [each.key for each in some]
        assert found == wanted
        assert sorted(keys) == sorted(wanted)
