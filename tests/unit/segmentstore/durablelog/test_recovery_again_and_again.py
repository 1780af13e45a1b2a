"""Recovery that is itself interrupted, repeated, continued, or given a damaged log."""

import asyncio
import random
from functools import partial

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner


def picture(bench):
    """Return all that a recovered container must agree on."""
    return (
        {
            name: (
                bench.index.content(state),
                state.start_offset,
                state.durable_length,
                state.sealed,
                dict(state.attributes.durable),
            )
            for name, state in bench.state.by_name.items()
        },
        dict(bench.state.storage_rows),
    )


async def drop(bench):
    """The process dies: nothing of it runs any more."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0)


async def test_a_first_start_interrupted_after_any_frame_is_started_again():
    whole = await Bench(frame_bytes=64).start()
    for kept in range(len(whole.wal.stored) + 1):
        records = list(whole.wal.stored[:kept])
        for _ in range(3):
            again = Bench(records=records, frame_bytes=64)
            await again.start()  # it adds its checkpoint to ``records`` the first time
            assert picture(again) == ({}, {})
            again.state.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_a_chain_of_owners_each_dying_at_any_frame_forgets_nothing_that_was_durable(seed):
    rng = random.Random(seed)
    records = []
    expected = ({}, {})
    for life in range(8):
        bench = await Bench(
            records=records,
            frame_bytes=rng.choice([150, 400, 2000]),
            frames=60,
            policy=CheckpointPolicy(rng.choice([8, 10**9]), 10**9),
        ).start()
        assert picture(bench) == expected
        bench.state.check()
        for step in range(rng.randrange(40)):
            name = f"s{rng.randrange(4)}"
            state = bench.state.by_name.get(name)
            if state is None:
                future = bench.log.submit(
                    lambda seq, name=name, bench=bench: transitions.propose_map(bench.state, seq, name, {})
                )
            elif rng.random() < 0.1:
                start = rng.randint(state.accepted_start_offset, state.accepted_length)
                future = bench.log.submit(
                    lambda seq, s=state, o=start: transitions.propose_truncate(s, seq, o), segments=(state,)
                )
            elif rng.random() < 0.1:
                rows = {f"r{rng.randrange(3)}": rng.choice([None, b"row"])}
                future = bench.log.submit(lambda seq, rows=rows: ops.StorageRows(seq, rows), critical=True)
            else:
                data = rng.randbytes(rng.choice([1, 60, 900]))
                if bench.log.processor.can_accept(len(data)) and not state.accepted_sealed:
                    bench.append(state, Owner(rng.randrange(3)), data, last=life * 1000 + step)
                continue
            future.add_done_callback(lambda f: f.cancelled() or f.exception())
            if rng.random() < 0.5:
                await asyncio.sleep(0)
                while bench.wal.waiting and rng.random() < 0.7:
                    bench.wal.step()
        await drop(bench)
        # Frames that the dead owner wrote and nobody acknowledged may be there as well, up to any one.
        for frame, _ in list(bench.wal.waiting)[: rng.randint(0, 2)]:
            records.append((frame.address, bytes(frame.view[: frame.length])))
        recovered = await Bench(records=list(records), frame_bytes=2000).start()
        expected = picture(recovered)
        for name, facts in picture(bench)[0].items():
            if facts[2] or bench.state.by_name[name].attributes.durable:
                assert expected[0][name][2] >= facts[2], "what was durable is there"


async def test_recovered_log_counts_towards_the_next_checkpoint():
    bench = await Bench(frame_bytes=300).start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 30):
        bench.append(segment, owner, b"x" * 100, last=number)
        await bench.settle()
    again = Bench(records=list(bench.wal.stored), frame_bytes=300, policy=CheckpointPolicy(30, 10**9))
    await again.start()
    await again.map("t")
    for _ in range(20):
        await again.settle()
    assert again.log.statistics().checkpoints == 1


async def test_a_container_that_checkpoints_all_the_time_still_gets_on():
    """Checkpoints as large as all bounds together: appends come between them."""
    bench = await Bench(frame_bytes=300, frames=40, policy=CheckpointPolicy(4, 10**9)).start()
    for number in range(40):
        await bench.map(f"segment-with-a-long-name-{number}")
    for _ in range(200):
        await bench.settle()
    frames = len(bench.wal.stored)
    for _ in range(200):
        await bench.settle()
    assert len(bench.wal.stored) == frames, "an idle container writes nothing"


async def test_a_frame_that_is_there_twice_is_corruption():
    """A log writes each frame once, at one address: a repetition is not its doing."""
    bench = await Bench().start()
    segment, owner = await bench.map("s"), Owner(1)
    bench.append(segment, owner, b"once", last=1)
    await bench.settle()
    address, content = bench.wal.stored[-1]
    with pytest.raises(DataCorruptionError, match="follows"):
        await Bench(records=[*bench.wal.stored, (address + 1, content)]).start()


async def test_a_corrupt_log_is_left_as_it_is_and_says_the_same_again():
    bench = await Bench(frame_bytes=200).start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 6):
        bench.append(segment, owner, b"x" * 60, last=number)
        await bench.settle()
    records = list(bench.wal.stored)
    del records[-2]
    evidence = list(records)
    for _ in range(2):
        again = Bench(records=records, frame_bytes=200)
        with pytest.raises(DataCorruptionError, match="appends at 240, length is 180"):
            await again.start()
        await again.log.stop()
        assert records == evidence
        assert not again.wal.waiting


@pytest.mark.slow
async def test_no_flipped_bit_makes_recovery_fail_in_any_other_way_than_corruption():
    """The log's checksums catch damage before this; behind them nothing may crash, hang or be misread."""
    bench = await Bench(frame_bytes=400).start()
    segment, owner = await bench.map("s"), Owner(1)
    for number in range(1, 4):
        bench.append(segment, owner, b"data" * number, last=number)
        await bench.settle()
    big = bench.log.submit(lambda seq: ops.StorageRows(seq, {"k": b"v" * 700, "gone": None}))
    truncating = bench.log.submit(lambda seq: transitions.propose_truncate(segment, seq, 4))
    sealing = bench.log.submit(partial(transitions.propose_seal, segment))
    await bench.settle()
    await asyncio.gather(big, truncating, sealing)
    records = list(bench.wal.stored)
    outcomes = {"corrupt": 0, "recovered": 0}
    rng = random.Random(5)
    for number, (address, content) in enumerate(records):
        for at in range(len(content)):
            for bit in (rng.randrange(8), 7):
                damaged = bytearray(content)
                damaged[at] ^= 1 << bit
                again = Bench(
                    records=[*records[:number], (address, bytes(damaged)), *records[number + 1 :]],
                    frame_bytes=400,
                )
                try:
                    await again.start()
                    again.state.check()
                    outcomes["recovered"] += 1
                except DataCorruptionError:
                    outcomes["corrupt"] += 1
    assert outcomes["corrupt"] > 100
