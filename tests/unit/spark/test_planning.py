"""What planning waits for: nothing twice, many segments at once, and what comes next while Spark reads."""

import pickle
import subprocess
import sys
import threading

import pytest

from headrace.spark.questions import ask_all
from tests.unit.spark.test_sources import _fill, _read, _stream_reader, world  # noqa: F401

EIGHT = [(each, each + 1) for each in range(8)]


def test_all_segments_are_asked_at_once(world):  # noqa: F811
    model, client = world
    model.scale([0], EIGHT)
    _fill(model, 80)
    reader = _stream_reader(start_stream_cut="earliest", approx_bytes_per_trigger="800")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    start = reader.latestOffset(start, limit)  # in front of the scale event
    met = threading.Barrier(8, timeout=30)  # is passed only if eight ask together
    ask_info, ask_bytes = client.segment_info, client.read_segment_range

    def wait_for_all(ask):
        def together(*args):
            met.wait()
            return ask(*args)

        return together

    client.read_segment_range = wait_for_all(ask_bytes)
    end = reader.latestOffset(start, limit)
    client.segment_info, client.read_segment_range = wait_for_all(ask_info), ask_bytes
    partitions = reader.partitions(start, end)
    assert sum(map(len, _read(reader, partitions))) == 40


def test_answers_are_in_order_and_the_first_error_is_that_of_all():
    assert ask_all(lambda number: -number, range(40)) == [-number for number in range(40)]
    with pytest.raises(ZeroDivisionError):
        ask_all(lambda number: 1 // (number - 3), range(40))


def test_the_end_of_the_next_batch_is_found_while_one_is_read(world):  # noqa: F811
    model, client = world
    _fill(model, 100)
    reader = _stream_reader(start_stream_cut="earliest", approx_bytes_per_trigger="300")
    limit = reader.getDefaultReadLimit()
    asked, read_segment_range = [], client.read_segment_range

    def note(*args):
        asked.append(threading.current_thread())
        return read_segment_range(*args)

    client.read_segment_range = note
    offset = reader.latestOffset(reader.initialOffset(), limit)
    sizes = []
    while (end := reader.latestOffset(offset, limit)) != offset:
        sizes.append(sum(map(len, _read(reader, reader.partitions(offset, end)))))
        offset = end
        if len(sizes) == 2:
            _fill(model, 4)  # behind the batch that was found ahead, and in one that follows
    assert sizes == [15, 15, 15, 15, 15, 15, 14]
    # Spark waited for a look at sizes and the first limit. Workers, this thread here, have read each batch.
    assert asked.count(threading.main_thread()) == 2 + len(sizes)
    assert len(asked) == 7 + len(sizes)


def test_a_full_batch_that_was_found_ahead_is_dropped_if_the_stream_is_another_one(world):  # noqa: F811
    model, client = world
    _fill(model, 100)
    reader = _stream_reader(
        start_stream_cut="earliest", approx_bytes_per_trigger="300", fail_on_data_loss="false"
    )
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    end = reader.latestOffset(start, limit)
    reader.partitions(start, end)
    client.create_anew()
    _fill(client.model, 20)
    rows, offset = 0, end
    for _ in range(5):
        end = reader.latestOffset(offset, limit)
        rows += sum(map(len, _read(reader, reader.partitions(offset, end))))
        offset = end
    assert rows == 20


@pytest.mark.slow
def test_little_is_loaded_to_define_to_plan_and_to_read(world):  # noqa: F811
    """Each of them begins in a fresh process, which answers when everything is loaded."""
    model, _ = world
    _fill(model, 3)
    reader = pickle.dumps(_stream_reader(start_stream_cut="earliest"))
    loaded = {}
    for task, work in {
        "define": "import headrace.spark.source",
        "plan": "import headrace.spark.stream",
        "read": f"import pickle; pickle.loads({reader!r})",
    }.items():
        show = "; import sys; print(*(each for each in sys.modules))"
        done = subprocess.run([sys.executable, "-c", work + show], capture_output=True, check=True, text=True)
        loaded[task] = set(done.stdout.split())
    for task, names in loaded.items():
        for absent in ("pandas", "polars", "headrace.spark.sink", "headrace.segmentstore", "headrace.cli"):
            assert absent not in names, f"{absent} is loaded to {task}"
    assert "headrace.client" not in loaded["define"]
    assert "pyarrow" not in loaded["define"]
    ours = {each for each in loaded["read"] if each.startswith("headrace.spark.")}
    planning = {"stream", "batch", "partitioning", "stream_graph", "followed_stream", "creation", "presence"}
    assert not ours & {f"headrace.spark.{each}" for each in planning}
