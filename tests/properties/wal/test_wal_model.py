"""Random lives of a log: memory, files and a list agree, over owners, restarts, power losses, truncation."""

import asyncio
import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.errors import FencedOutError
from headrace.testing.disk import DiskConfig
from headrace.wal.file.idle_mark import DURABLE_MARK_AFTER_S
from headrace.wal.memory import MemoryLogStore, MemoryWal
from tests.effort import examples
from tests.unit.wal.world import SMALL, History, Machine, append_some, read_all


class WalMachine(RuleBasedStateMachine):
    """Records are compared by content and order; addresses are each log's own business, but order is not."""

    @initialize(direct=st.booleans(), seed=st.integers(0, 1000))
    def start(self, direct, seed):
        self.machine = Machine(seed, DiskConfig(direct=direct))
        self.store = MemoryLogStore()
        self.model = []
        self.places = []  # of each record of the model: its addresses in file and memory
        self.numbers = itertools.count()
        self.owners = []
        self.gone = []
        self.open_logs()

    def open_logs(self, dropped=None):
        """``dropped``: a truncation in front of this record was given up, and may have been made or not."""
        file = self.machine.run(self.machine.open())
        memory = MemoryWal(self.store, "log", SMALL)
        self.machine.run(memory.open())
        in_file = self.machine.run(read_all(file))
        in_memory = self.machine.run(read_all(memory))
        if dropped is not None and len(in_file) != len(self.model):
            self.drop(dropped, [memory])  # it was given up too late
            in_memory = in_memory[dropped:]
        assert [content for _, content in in_file] == self.model
        assert [content for _, content in in_memory] == self.model
        assert [address for address, _ in in_file] == [places[0] for places in self.places]
        assert [address for address, _ in in_memory] == [places[1] for places in self.places]
        if self.owners:
            assert file.epoch > self.owners[-1][0].epoch
            assert memory.epoch > self.owners[-1][1].epoch
        self.owners.append((file, memory))

    @rule(sizes=st.lists(st.integers(0, 500), min_size=1, max_size=12))
    def append(self, sizes):
        contents = [b"%d|" % next(self.numbers) + bytes(size) for size in sizes]
        added = []
        for wal in self.owners[-1]:
            history = History()
            self.machine.run(append_some(wal, history, contents))
            assert history.errors == []
            assert list(history.acknowledged.values()) == contents
            added.append(list(history.acknowledged))
            wal.check()
        self.model += contents
        self.places += zip(*added, strict=True)

    def address(self, index, position):
        """Return where a record lies in the file (0) or in memory (1), or where the next one will."""
        return self.places[-1][position] + 1 if index == len(self.model) else self.places[index][position]

    def drop(self, index, wals):
        for wal in wals:
            self.machine.run(wal.truncate(self.address(index, isinstance(wal, MemoryWal))))
        del self.model[:index]
        del self.places[:index]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data):
        self.drop(data.draw(st.integers(0, len(self.model))), self.owners[-1])

    @precondition(lambda self: self.model)
    @rule(data=st.data(), after_s=st.floats(0, 0.005), rests=st.integers(0, 2), clean=st.booleans())
    def give_a_truncation_up(self, data, after_s, rests, clean):
        """Nobody waits for it any more: it is made or not, whatever is marked behind it."""
        index = data.draw(st.integers(0, len(self.model)))
        file, _ = self.owners[-1]
        address = self.address(index, 0)

        async def give_up():
            truncating = asyncio.ensure_future(file.truncate(address))
            await asyncio.sleep(after_s)
            truncating.cancel()
            await asyncio.wait([truncating])

        self.machine.run(give_up())
        for _ in range(rests):
            self.append([10])
            self.rest()
        if clean:
            for wal in self.owners[-1]:
                self.machine.run(wal.close())
                self.gone.append(wal)
        self.open_logs(index)

    @rule()
    def restart(self):
        for wal in self.owners[-1]:
            self.machine.run(wal.close())
            self.gone.append(wal)
        self.open_logs()

    @rule()
    def rest(self):
        """Everybody's logs store that their last records are durable, or learn that they were fenced."""
        self.machine.run(asyncio.sleep(2 * DURABLE_MARK_AFTER_S))

    @rule()
    def take_over(self):
        self.open_logs()

    @rule()
    def lose_power(self):
        self.machine.disk.lose_power()
        self.machine.disk.restore_power()
        self.gone += [file for file, _ in self.owners]
        self.open_logs()

    @precondition(lambda self: len(self.owners) > 1)
    @rule(data=st.data(), count=st.integers(1, 4))
    def be_a_zombie(self, data, count):
        """An owner that was replaced, but neither closed nor killed, is refused."""
        owner = data.draw(st.integers(0, len(self.owners) - 2))
        for wal in self.owners[owner]:
            if wal in self.gone:
                continue
            history = History()
            self.machine.run(append_some(wal, history, [b"zombie"] * count))
            assert history.acknowledged == {}
            assert {type(error) for error in history.errors} == {FencedOutError}

    @invariant()
    def nothing_went_unnoticed(self):
        if hasattr(self, "machine"):
            assert not self.machine.loop.failures


WalMachine.TestCase.settings = settings(
    max_examples=examples(40), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestWalMachine = WalMachine.TestCase
