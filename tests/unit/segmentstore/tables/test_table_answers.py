"""Answers that must not be given: of damage as of a wrong question, and before anything is durable."""

from __future__ import annotations

import pytest

from headrace.errors import AnswerTooLargeError, DataCorruptionError, FencedOutError
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on
from tests.unit.segmentstore.tables.test_tables import T, entry, start, turns


async def test_a_delta_over_damaged_storage_is_corruption_not_a_wrong_position(monkeypatch):
    access = MemorySegments()
    tables = tables_on(access)
    await tables.create(T)
    await tables.update(T, [entry("first", b"value")])
    position = (await tables.delta(T, 0, 10)).last_position
    await tables.update(T, [entry("second", b"value")])

    async def read(segment, offset, length_max, *, wait):
        raise DataCorruptionError("a block fails its checksum", path="chunk", offset=0)

    monkeypatch.setattr(access, "read", read)
    with pytest.raises(DataCorruptionError):  # InvalidArgumentError: "position ... is not one of table"
        await tables.delta(T, position, 10)
    await tables.close()


async def test_a_delta_that_may_have_no_byte_does_not_pass_for_its_end_because_of_a_removal():
    """An answer without entries means that there are none up to the end: whoever asks does not go on."""
    access = MemorySegments()
    tables = tables_on(access)
    await tables.create(T)
    await tables.update(T, [entry("removed", b"value")])
    position = (await tables.delta(T, 0, 10)).last_position
    await tables.remove(T, [entry("removed")])
    assert (await tables.delta(T, position, 10, 0)).reached_end, "there is only the removal"
    await tables.update(T, [entry("kept", b"value")])
    with pytest.raises(AnswerTooLargeError):
        await tables.delta(T, position, 10, 0)
    await tables.close()


async def test_a_condition_on_the_length_is_not_confirmed_before_that_length_is_durable():
    """An update without entries and a removal of an absent key are answered without a write."""
    access = MemorySegments(auto_commit=False)
    tables = tables_on(access)
    created = start(tables.create(T))
    await turns()
    access.commit()
    await created
    update = start(tables.update(T, [entry("k", b"v")]))
    await turns()
    length = access.get_segment(T).accepted_length
    confirmed = start(tables.update(T, [], length))
    removed = start(tables.remove(T, [entry("absent")], length))
    await turns()
    early = [confirmed.done(), removed.done()]  # whoever is told so may never see that length
    access.commit()
    await update
    await turns()
    await tables.close()
    assert early == [False, False]


async def test_an_empty_update_is_refused_by_who_is_not_the_owner_any_more():
    """As the removal of an absent key is: the condition may not hold with the owner that there is."""
    access = MemorySegments()
    tables = tables_on(access)
    await tables.create(T)
    await tables.update(T, [entry("k", b"v")])
    access.fenced = True
    with pytest.raises(FencedOutError):
        await tables.update(T, [], access.get_segment(T).durable_length)
    await tables.close()
