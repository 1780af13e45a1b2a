"""Two processes at one log: whoever opens last owns it, and nothing acknowledged is lost on the way."""

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs

pytestmark = pytest.mark.cluster

SCRIPT = Path(__file__).with_name("wal_owner_process.py")


class Owner:
    """A process of ``wal_owner_process``."""

    def __init__(self, directory, name):
        self.process = programs.Popen(
            [sys.executable, str(SCRIPT), str(directory), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.said = []
        self._unread = b""

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, *first_words):
        """Read on until one of ``first_words`` begins a line; return that line."""
        while True:
            line = self._read_line(first_words)
            self.said.append(line.decode().split())
            if self.said[-1][0] in first_words:
                return self.said[-1]

    def _read_line(self, wanted):
        while b"\n" not in self._unread:
            readable, _, _ = select.select([self.process.stdout], [], [], 30)
            assert readable, f"nothing of {wanted} was said"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, "the process ended"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def ask(self, *words, until=("done", "failed", "opened")):
        self.tell(*words)
        return self.hear(*until)

    def words(self, first):
        return [line[1] for line in self.said if line[0] == first]

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        if self.process.poll() is None:
            self.resume()
            self.process.kill()
        self.process.wait(120)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def owners(tmp_path):
    made = []

    def make(name):
        made.append(Owner(tmp_path / "log", name))
        return made[-1]

    yield make
    for owner in made:
        owner.end()


def test_the_first_process_fails_at_its_next_write_after_a_second_took_over(owners):
    first, second = owners("first"), owners("second")
    assert first.ask("open") == ["opened", "1"]
    assert first.ask("append", 20) == ["done"]
    assert second.ask("open") == ["opened", "2"]
    assert second.words("found") == first.words("acknowledged") == [f"first-{n}" for n in range(20)]
    for _ in range(2):
        assert first.ask("append", 1) == ["failed", "FencedOutError"]
    assert second.ask("append", 20) == ["done"]
    assert first.ask("append", 1) == ["failed", "FencedOutError"]


def test_processes_may_take_the_log_from_each_other_in_any_order(owners):
    first, second = owners("first"), owners("second")
    assert second.ask("open") == ["opened", "1"]
    assert second.ask("append", 3) == ["done"]
    assert first.ask("open") == ["opened", "2"]
    assert second.ask("append", 1) == ["failed", "FencedOutError"]
    assert first.ask("append", 3) == ["done"]
    third = owners("third")
    assert third.ask("open") == ["opened", "3"]
    assert third.words("found") == second.words("acknowledged") + first.words("acknowledged")
    assert first.ask("append", 1) == ["failed", "FencedOutError"]


@pytest.mark.parametrize("seed", range(3))
def test_a_takeover_while_writes_are_in_flight_loses_nothing_that_was_acknowledged(owners, seed):
    chance = random.Random(seed)
    first, second = owners("first"), owners("second")
    first.ask("open")
    first.tell("flood")
    for _ in range(chance.randrange(10, 200)):
        first.hear("acknowledged")
    opened = second.ask("open")
    assert opened == ["opened", "2"]
    assert first.hear("failed") == ["failed", "FencedOutError"]
    acknowledged, found = first.words("acknowledged"), second.words("found")
    assert found[: len(acknowledged)] == acknowledged
    assert found == [f"first-{number}" for number in range(len(found))]
    assert second.ask("append", 5) == ["done"]
    third = owners("third")
    third.ask("open")
    assert third.words("found") == found + second.words("acknowledged")


@pytest.mark.parametrize("seed", range(3))
def test_a_process_that_stood_still_acknowledges_nothing_that_its_successor_lacks(owners, seed):
    chance = random.Random(100 + seed)
    first, second = owners("first"), owners("second")
    first.ask("open")
    first.tell("flood")
    for _ in range(chance.randrange(10, 200)):
        first.hear("acknowledged")
    first.pause()  # anywhere: in the middle of a write, between a write and its answer
    assert second.ask("open") == ["opened", "2"]
    found = second.words("found")
    assert second.ask("append", 20) == ["done"]
    first.resume()
    assert first.hear("failed") == ["failed", "FencedOutError"]
    acknowledged = first.words("acknowledged")
    assert found[: len(acknowledged)] == acknowledged
    third = owners("third")
    third.ask("open")
    assert third.words("found") == found + second.words("acknowledged")


def test_a_killed_process_leaves_nothing_that_keeps_the_next_one_out(owners):
    first, second = owners("first"), owners("second")
    first.ask("open")
    first.tell("flood")
    for _ in range(50):
        first.hear("acknowledged")
    first.process.kill()
    assert second.ask("open") == ["opened", "2"]
    acknowledged = first.words("acknowledged")
    assert second.words("found")[: len(acknowledged)] == acknowledged
    assert second.ask("append", 1) == ["done"]
