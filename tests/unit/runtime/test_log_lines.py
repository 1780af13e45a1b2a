"""Who takes the lines of a log may stand still: nobody waits for that, and what is lost is told."""

import os
import threading

import pytest

from headrace.runtime.log_lines import LogLines

LINE = b"x" * 9_999 + b"\n"


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


@pytest.fixture
def lines(pipe):
    found = LogLines(pipe[1], lambda count: b"%d lost\n" % count, bytes_max=200_000)
    yield found
    found.close()


def read_until(reading, end):
    found = b""
    while not found.endswith(end):
        found += os.read(reading, 1 << 20)
    return found


def test_lines_are_written_in_order_and_a_flush_waits_for_them(pipe, lines):
    for number in range(100):
        lines.put(b"%d\n" % number)
    assert lines.flush(10)
    assert os.read(pipe[0], 1 << 20).split() == [b"%d" % number for number in range(100)]


def test_lines_that_nobody_takes_hold_up_nobody_and_are_counted(pipe, lines):
    for _ in range(100):
        lines.put(LINE)
    assert not lines.flush(0.01)
    found = read_until(pipe[0], b" lost\n")
    kept = found.count(LINE)
    assert kept < 100
    assert found == LINE * kept + b"%d lost\n" % (100 - kept)
    lines.put(b"and on\n")
    assert read_until(pipe[0], b"on\n") == b"and on\n"


def test_a_descriptor_that_does_not_wait_is_waited_for(pipe, lines):
    os.set_blocking(pipe[1], False)
    for _ in range(15):
        lines.put(LINE)
    lines.put(b"end\n")
    assert read_until(pipe[0], b"end\n") == LINE * 15 + b"end\n"


def test_one_line_always_fits_and_the_next_says_what_is_missing(pipe, lines):
    long = b"y" * 300_000 + b"\n"
    lines.put(long)
    lines.put(LINE)
    found = read_until(pipe[0], b" lost\n")
    assert found == long + b"1 lost\n"
    assert lines.flush(10)


def test_who_has_left_is_not_waited_for():
    reading, writing = os.pipe()
    os.close(reading)
    lines = LogLines(writing, lambda _: b"")
    lines.put(LINE)
    assert lines.flush(10)
    lines.close()
    os.close(writing)


def test_the_thread_ends_when_all_is_written(pipe):
    before = set(threading.enumerate())
    lines = LogLines(pipe[1], lambda _: b"")
    lines.put(b"last\n")
    (thread,) = set(threading.enumerate()) - before
    lines.close()
    thread.join(120)
    assert not thread.is_alive()
    assert os.read(pipe[0], 100) == b"last\n"
