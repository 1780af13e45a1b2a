"""Bars are for people at a terminal who wait, and for nobody else."""

import builtins
import io

import pytest

from headrace.cli import progress as module
from headrace.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so."""
    times = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: times[0])
    return times


@pytest.fixture
def without_rich(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.partition(".")[0] == "rich":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)


def shown(monkeypatch, clock, *, stderr, quiet=False, seconds=2.0):
    monkeypatch.setattr("sys.stderr", stderr)
    with Progress("writing", "events", 1000, quiet=quiet) as progress:
        progress.show(1)
        clock[0] += seconds
        progress.show(500, "so far")
    return stderr.getvalue()


def test_a_line_with_its_rate_is_replaced_and_removed_at_the_end(monkeypatch, clock, without_rich):
    found = shown(monkeypatch, clock, stderr=Terminal())
    assert found == "\rwriting: 500 events of 1,000 events, 250 events/s, so far\x1b[K\r\x1b[K"


def test_a_bar_is_shown_where_rich_is(monkeypatch, clock):
    pytest.importorskip("rich")
    assert "500 events" in shown(monkeypatch, clock, stderr=Terminal())


@pytest.mark.parametrize(
    "settings",
    [
        {"stderr": io.StringIO()},
        {"stderr": Terminal(), "quiet": True},
        {"stderr": Terminal(), "seconds": 0.9},
    ],
)
def test_nothing_is_shown_in_pipes_for_programs_or_of_what_is_done_soon(monkeypatch, clock, settings):
    assert shown(monkeypatch, clock, **settings) == ""
