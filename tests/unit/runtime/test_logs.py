import io
import json
import logging

import pytest

from headrace.runtime import logs


@pytest.fixture
def stream():
    root = logging.getLogger("headrace")
    before = list(root.handlers), root.level, root.propagate
    yield io.StringIO()
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


def test_a_human_line_has_time_level_logger_message_and_context(stream):
    logs.configure(stream=stream)
    log = logs.logger("headrace.wal", container=3).bind(path="/a b", data=b"\x01\xff")
    log.info("opened %d files", 2, epoch=4, seconds=1.23456789)
    line = stream.getvalue()
    assert line.endswith(
        ' INFO    headrace.wal  opened 2 files  container=3 path="/a b" data=01ff epoch=4 seconds=1.23457\n'
    )
    assert line[:24][10] == "T"
    assert line[23] == "Z"


def test_a_json_line_is_one_object_and_our_keys_win(stream):
    logs.configure(stream=stream, log_format="json")
    logs.logger("headrace.wal").warning("torn", message="mine", offset=7, raw=b"\x00")
    line = json.loads(stream.getvalue())
    assert line["level"] == "warning"
    assert line["message_"] == "mine"
    assert (line["offset"], line["raw"], line["message"]) == (7, "00", "torn")


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_a_hostile_name_cannot_forge_a_line(stream, log_format):
    logs.configure(stream=stream, log_format=log_format)
    evil = "x\n2026-01-01 ERROR forged \x1b[2J\u2028"
    logs.logger("headrace.wal").info("segment %s", evil, segment=evil)
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_an_exception_carries_its_traceback(stream, log_format):
    logs.configure(stream=stream, log_format=log_format)
    try:
        raise ValueError("inner")
    except ValueError:
        logs.logger("headrace.wal").exception("failed", container=1)
    assert "ValueError: inner" in stream.getvalue()
    assert "Traceback" in stream.getvalue()


def test_levels_filter_and_configuring_twice_does_not_double_lines(stream):
    logs.configure(stream=stream, level="debug")
    logs.configure(stream=stream, level="warning")
    log = logs.logger("headrace.x")
    log.info("no")
    log.warning("yes")
    assert stream.getvalue().count("yes") == 1
    assert "no" not in stream.getvalue().split("headrace.x", 1)[0]


def test_plain_loggers_of_the_package_are_formatted_too(stream):
    logs.configure(stream=stream)
    logging.getLogger("headrace.plain").error("hello")
    assert stream.getvalue().endswith("headrace.plain  hello\n")


def test_lines_are_shown_until_a_block_ends(stream, capfd):
    root = logging.getLogger("headrace")
    before = root.level, root.propagate
    log = logs.logger("headrace.x")
    with logs.shown(level="info"):
        log.info("seen")
    assert "seen" in capfd.readouterr().err
    log.info("not seen")
    assert capfd.readouterr().err == ""
    assert (root.level, root.propagate) == before
