from collections import Counter
from pathlib import Path

import pytest

from headrace.wal.inspect import RecordStatus, inspect_log, inspect_records
from tests.unit.wal.world import DIRECTORY, History, Machine, append_some

GOLDEN = Path(__file__).parents[3] / "golden" / "wal" / "v1"


def contents(start, count):
    return [b"%05d" % number for number in range(start, start + count)]


def inspected(machine):
    machine.make_wal()
    filesystem = machine.processes[-1]
    log = inspect_log(DIRECTORY, filesystem)
    records = {file.name: list(inspect_records(log, file.name, filesystem)) for file in log.files}
    return log, records


def test_the_golden_log_is_described():
    log = inspect_log(str(GOLDEN))
    assert log.problem == ""
    assert log.owner.epoch == 2
    assert [record.epoch for record in log.owners] == [1, 2]
    assert [file.head.number for file in log.files] == [1, 2]
    assert [mark and mark.truncation_sequence for mark in log.files[0].marks] == [None, 2]
    assert (log.recovered.truncation_sequence, log.recovered.next_sequence) == (2, 5)
    records = [record for file in log.files for record in inspect_records(log, file.name)]
    assert [(record.header.sequence, record.status.value) for record in records] == [
        (1, "dropped"),
        (2, "living"),
        (3, "living"),
        (4, "living"),
        (5, "dropped"),  # the close mark
    ]


def test_recycled_and_living_records_are_told_apart():
    machine = Machine()

    async def live():
        wal = await machine.open()
        await append_some(wal, History(), contents(0, 40))
        await wal.truncate(38)
        await append_some(wal, History(), contents(40, 6))
        await wal.close()

    machine.run(live())
    log, records = inspected(machine)
    assert log.problem == ""
    living = [r.header.sequence for file in records.values() for r in file if r.status is RecordStatus.LIVING]
    assert sorted(living) == list(range(38, 47))
    counts = Counter(record.status for file in records.values() for record in file)
    assert counts[RecordStatus.RECYCLED] > 0
    assert counts[RecordStatus.DAMAGED] == 0


def test_damage_is_shown_with_what_an_owner_would_say():
    machine = Machine()

    async def live():
        wal = await machine.open()
        await append_some(wal, History(), contents(0, 3))
        await wal.close()

    machine.run(live())
    name = "000000000001-000000000001.wal"
    machine.disk.flip_bit(f"{DIRECTORY}/{name}", 12288 + 64, 1)
    log, records = inspected(machine)
    assert log.recovered is None
    assert "record 1 is damaged" in log.problem
    assert records[name][0].status is RecordStatus.DAMAGED


def test_inspecting_changes_nothing_and_fences_nobody():
    machine, history = Machine(), History()

    async def live():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 3))
        before = {path: bytes(file.content) for path, file in machine.disk.files()}
        inspected(machine)
        assert before == {path: bytes(file.content) for path, file in machine.disk.files()}
        await append_some(wal, history, contents(3, 3))
        await wal.close()

    machine.run(live())
    assert history.errors == []


def test_a_directory_without_a_log_has_no_owner(tmp_path):
    log = inspect_log(str(tmp_path))
    assert log.owner is None
    assert log.problem
    with pytest.raises(OSError):
        inspect_log(str(tmp_path / "nothing"))
