"""Owners of one log over simulated bookies, and who judges what they acknowledged.

Owners are generators over the real plans: each yields a condition, and goes on when the world chooses it and
the condition holds. So any two of them overlap in any way; a former owner goes on until it notices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from headrace.errors import DataCorruptionError, FencedOutError, WalWriteError
from headrace.model.endpoint import Endpoint
from headrace.wal.bookkeeper.ensemble import choose_ensemble
from headrace.wal.bookkeeper.entry_format import Entry, decode_entry, encode_entry_head
from headrace.wal.bookkeeper.ledger_metadata import (
    Ensemble,
    LedgerMetadata,
    LedgerState,
    begin_recovery,
    close_ledger,
    decode_ledger,
    encode_ledger,
)
from headrace.wal.bookkeeper.ledger_nodes import Bookie, ledger_path
from headrace.wal.bookkeeper.ledger_recovery import Ask, Asked, LedgerRecovery, Reply
from headrace.wal.bookkeeper.ledger_writer import LedgerWriter, Progress
from headrace.wal.bookkeeper.log_changes import add_ledger, check_owner, next_address, take_log
from headrace.wal.bookkeeper.log_node import LogNode, decode_log, encode_log
from headrace.wal.bookkeeper.log_plan import LogPlan, Outcome, Placed
from headrace.wal.bookkeeper.quorums import Quorums
from headrace.wal.bookkeeper.wire_format import (
    Answer,
    Verdict,
    encode_add,
    encode_read,
    master_key,
)
from tests.simulation.worlds.ledger_bookies import Connection, SimulatedBookie, SimulatedNodes

LOG: Final = "logs/0"
KEY: Final = master_key(b"")
FRAMES: Final = 4
CONTENT_BYTES: Final = 8
LEDGER_BYTES_MAX: Final = 20 * CONTENT_BYTES
BEHIND_BYTES_MAX: Final = 3 * CONTENT_BYTES

Condition = Callable[[], bool]
Life = Generator[Condition, None, None]


class JudgementError(AssertionError):
    """A promise of the log is broken."""


def always() -> bool:
    return True


@dataclass(eq=False)
class Frame:
    buffer: bytearray = field(default_factory=lambda: bytearray(CONTENT_BYTES))


@dataclass(slots=True)
class Waiting:
    """The bookies that have not answered what a recovery asks."""

    pending: dict[str, Connection]
    replies: dict[str, Reply] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Client:
    """What a planted client does otherwise than it should."""

    fences_reads: bool = True
    """Recovery reads fence, not only the first one."""
    reuses_early: bool = False
    """A frame is filled again once it is acknowledged."""
    checks_owner: bool = True
    """Whether the log is still its own, before it adds a ledger to it."""


class LedgerWorld:
    """One log, its bookies, and all owners it ever had."""

    def __init__(self, seed: int, *, bookies: int, quorums: Quorums, client: Client) -> None:
        self.random = Random(seed)
        self.quorums = quorums
        self.client = client
        self.bookies = {f"b{n}:1": SimulatedBookie(f"b{n}:1", self.random) for n in range(bookies)}
        self.nodes = SimulatedNodes(self.random, 0.03)
        self.nodes.nodes[LOG] = (encode_log(LogNode(0)), 0)
        self.connections: list[Connection] = []
        self.lives: list[tuple[Life, Condition]] = []
        self.waiting: list[Waiting] = []
        self.owners: list[Owner] = []
        self.ledgers = 0
        self.contents = 0
        self.acknowledged: dict[int, tuple[bytes, int]] = {}
        """By address: the content, and the container epoch of the owner."""
        self.lost_fences = 0.1
        self.heals = False
        self.a_disk_is_lost = False

    # ---- chance

    def chance(self, probability: float) -> bool:
        return not self.heals and self.random.random() < probability

    def start(self, life: Life) -> None:
        self.lives.append((life, always))

    def step(self) -> bool:
        """Let one thing happen; False: nothing can."""
        self.connections = [each for each in self.connections if each.is_open]
        kinds: list[Callable[[], object]] = []
        is_waiting = False
        for connection in self.connections:
            if connection.requests and connection.bookie.answers:
                if connection.is_slow and self.chance(0.95):
                    is_waiting = True
                else:
                    kinds.append(connection.deliver)
            if connection.answers:
                kinds.append(connection.answer)
        for place, (_, condition) in enumerate(self.lives):
            if condition():
                kinds.append(lambda place=place: self._advance(place))  # type: ignore[misc]
        for waiting in self.waiting:
            for name, connection in waiting.pending.items():
                if not connection.requests or not connection.bookie.answers or self.chance(0.02):
                    kinds.append(lambda waiting=waiting, name=name: self._time_out(waiting, name))  # type: ignore[misc]
        if not kinds:
            return is_waiting
        self.random.choice(kinds)()
        return True

    def _advance(self, place: int) -> None:
        life, _ = self.lives.pop(place)
        with contextlib.suppress(StopIteration):
            self.lives.append((life, next(life)))

    def _time_out(self, waiting: Waiting, name: str) -> None:
        connection = waiting.pending.get(name)
        if connection is not None and not connection.answers:
            del waiting.pending[name]
            connection.client_lives = False  # what was sent may still arrive

    # ---- faults

    def slow_down(self) -> None:
        """Let some connections take long, so that what is in flight arrives behind what comes later."""
        for connection in self.connections:
            connection.is_slow = self.chance(0.5)

    def cut_one(self) -> None:
        if self.connections:
            self.random.choice(self.connections).cut()

    def kill(self, bookie: SimulatedBookie) -> None:
        bookie.is_up = False
        for connection in self.connections:
            if connection.bookie is bookie:
                connection.cut()

    def heal(self) -> None:
        self.heals = True
        self.lost_fences = 0.0
        for bookie in self.bookies.values():
            bookie.is_paused = False
            if not bookie.is_up:
                bookie.restart()

    # ---- what is true

    def read_log(self, node: LogNode) -> dict[int, bytes]:
        """Return what an owner of ``node`` reads, from whichever bookie has it whole."""
        found: dict[int, bytes] = {}
        for each in node.ledgers:
            ledger = decode_ledger(self.nodes.read(ledger_path(each.ledger))[0])
            if ledger.state is not LedgerState.CLOSED:
                raise JudgementError(f"ledger {each.ledger} is read and not closed")
            for entry in range(ledger.last_entry + 1):
                address = each.first_address + entry
                if address in found:
                    raise JudgementError(f"two entries have address {address}")
                found[address] = self._read_entry(each.ledger, entry, ledger)
        if sorted(found) != list(range(1, len(found) + 1)):
            raise JudgementError("the log has gaps")
        if len(set(found.values())) != len(found):
            raise JudgementError("something is in the log twice")
        return found

    def _read_entry(self, number: int, entry: int, ledger: LedgerMetadata) -> bytes:
        payloads = list[bytes]()
        for name in ledger.ensemble_of(entry):
            data = self.bookies[name].entries.get((number, entry))
            if data is not None:
                try:
                    payloads.append(bytes(decode_entry(data, number, entry).payload))
                except DataCorruptionError as error:
                    raise JudgementError(f"{name} has other bytes than were sent: {error}") from None
        if len(set(payloads)) != 1:
            raise JudgementError(f"ledger {number} has {len(set(payloads))} contents of entry {entry}")
        if len(payloads) < ledger.ack_quorum and not self.a_disk_is_lost:
            raise JudgementError(f"entry {entry} of ledger {number} is on {len(payloads)} bookies only")
        return payloads[0]

    def acknowledge(self, owner: Owner, address: int, content: bytes) -> None:
        if self.acknowledged.setdefault(address, (content, owner.epoch)) != (content, owner.epoch):
            raise JudgementError(f"address {address} was acknowledged twice")
        for later in self.owners[self.owners.index(owner) + 1 :]:
            if later.read is not None and later.epoch > owner.epoch and later.read.get(address) != content:
                raise JudgementError(f"{address} was acknowledged though a newer owner has not read it")

    def check_read(self, owner: Owner, found: dict[int, bytes]) -> None:
        for address, (content, epoch) in self.acknowledged.items():
            if epoch < owner.epoch and found.get(address) != content:
                raise JudgementError(f"{address} was acknowledged as {content!r}: {found.get(address)!r}")


class Owner:
    """One process that takes the log and writes it. ``appends``: how many frames it will append."""

    def __init__(self, world: LedgerWorld, appends: int) -> None:
        self.world = world
        self.epoch = 0
        self.read: dict[int, bytes] | None = None
        """What it has read, once it is open."""
        self.is_over = False
        self.appends = appends
        self._plan: LogPlan[Frame] | None = None
        self._frames = [Frame() for _ in range(FRAMES)]
        self._connections: dict[tuple[int, str], Connection] = {}

    def has_ended(self) -> bool:
        return self.is_over

    def die(self) -> None:
        """End as ``kill -9`` does: what was sent may still arrive."""
        self.is_over = True
        for connection in self._connections.values():
            connection.client_lives = False

    def live(self) -> Life:
        node = yield from self._take()
        self.epoch = node.container_epoch
        last = None
        for each in node.ledgers:
            last = yield from self.recover(each.ledger)
        if self.is_over:
            return
        found = self.world.read_log(node)
        self.world.check_read(self, found)
        self.read = found
        plan = self._plan = LogPlan[Frame](next_address(node, last), ledger_bytes_max=LEDGER_BYTES_MAX)
        try:
            while self.appends or plan.in_flight:
                yield always
                if self.has_ended():
                    break
                if self.appends and self._frames:
                    self._append(plan)
                if plan.wants_roll:
                    plan.begin_roll()
                    yield from self._end(plan)
                if plan.wants_ledger and not self.has_ended():
                    yield from self._begin(plan)
        except FencedOutError:
            plan.fail()
        self.is_over = True

    def _take(self) -> Generator[Condition, None, LogNode]:
        while True:
            data, version = self.world.nodes.read(LOG)
            yield always
            node = take_log(decode_log(data, 0))
            if self.world.nodes.write(LOG, encode_log(node), version):
                yield always
                return node
            yield always  # without an answer, too: another owner may have taken the same epoch

    def _append(self, plan: LogPlan[Frame]) -> None:
        self.appends -= 1
        frame = self._frames.pop()
        self.world.contents += 1
        frame.buffer[:] = self.world.contents.to_bytes(CONTENT_BYTES, "big")
        self._apply(plan, plan.writer, plan.append(frame, CONTENT_BYTES)[1])
        writer = plan.writer
        if writer is not None:
            for name in writer.find_slow():
                self._on_progress(writer, writer.on_lost(name))

    # ---- the ledger that is written

    def _begin(self, plan: LogPlan[Frame]) -> Life:
        world = self.world
        up = [Bookie(each.name, Endpoint("b", 1)) for each in world.bookies.values() if each.is_up]
        choice = choose_ensemble(up, world.quorums, (), world.random.randrange(100))
        if choice is None:
            return
        world.ledgers += 1
        number, names = world.ledgers, tuple(bookie.id for bookie in choice.bookies)
        ledger = LedgerMetadata(
            write_quorum=choice.quorums.write, ack_quorum=choice.quorums.ack, ensembles=(Ensemble(0, names),)
        )
        world.nodes.nodes[ledger_path(number)] = (encode_ledger(ledger), 0)
        while True:
            yield always
            data, version = world.nodes.read(LOG)
            yield always
            node = decode_log(data, 0)
            if world.client.checks_owner:
                check_owner(node, self.epoch)
            if any(each.ledger == number for each in node.ledgers):
                break
            world.nodes.write(LOG, encode_log(add_ledger(node, number, plan.first_unanswered)), version)
        yield always
        if self.is_over:
            return
        writer = LedgerWriter(number, names, choice.quorums, behind_bytes_max=BEHIND_BYTES_MAX)
        for name in names:
            self._connect(writer, name)
        self._apply(plan, writer, plan.begin_ledger(writer))

    def _connect(self, writer: LedgerWriter, name: str) -> None:
        def on_answer(answer: Answer) -> None:
            self._on_progress(writer, writer.on_answer(name, answer.entry, answer.verdict))

        def on_lost() -> None:
            self._on_progress(writer, writer.on_lost(name))

        connection = Connection(self.world.bookies[name], on_answer, on_lost)
        self._connections[writer.ledger, name] = connection
        connection.is_slow = self.world.chance(0.1)
        self.world.connections.append(connection)
        if not connection.bookie.is_up:
            connection.cut()

    def _on_progress(self, writer: LedgerWriter, progress: Progress) -> None:
        if self._plan is not None and not self.is_over:
            self._apply(self._plan, writer, self._plan.on_progress(writer, progress))

    def _apply(self, plan: LogPlan[Frame], writer: LedgerWriter | None, outcome: Outcome[Frame]) -> None:
        for placed, add in outcome.send:
            assert plan.writer is not None
            payload = memoryview(placed.frame.buffer)
            head = encode_entry_head(
                plan.writer.ledger, add.entry, add.last_confirmed, add.length, bytes(payload)
            )
            for name in add.bookies:
                packet = encode_add(KEY, head, len(payload))
                self._connections[plan.writer.ledger, name].send(packet, payload)
        for name in outcome.given_up:
            assert writer is not None
            self._connections[writer.ledger, name].close()
        for placed in outcome.acknowledged:
            self.world.acknowledge(self, placed.address, bytes(placed.frame.buffer))
        self._reuse(outcome.acknowledged if self.world.client.reuses_early else outcome.released)

    def _reuse(self, placed: list[Placed[Frame]]) -> None:
        self._frames += [each.frame for each in placed]

    def _end(self, plan: LogPlan[Frame]) -> Life:
        writer = plan.writer
        if writer is None:
            return
        path = ledger_path(writer.ledger)
        while True:
            data, version = self.world.nodes.read(path)
            yield always
            ledger = decode_ledger(data)
            if ledger.state is LedgerState.OPEN:
                closed = close_ledger(data, writer.confirmed, writer.confirmed_length)
                self.world.nodes.write(path, closed, version)
                yield always
                continue
            node = decode_log(self.world.nodes.read(LOG)[0], 0)
            if self.world.client.checks_owner:
                check_owner(node, self.epoch)
            yield always
            last = yield from self.recover(writer.ledger)
            if not self.is_over:
                self._apply(plan, writer, plan.end_ledger(last))
            return

    # ---- recovery

    def recover(self, number: int) -> Generator[Condition, None, int]:
        path = ledger_path(number)
        while True:
            data, version = self.world.nodes.read(path)
            yield always
            ledger = decode_ledger(data)
            if ledger.state is LedgerState.CLOSED or self.is_over:
                return ledger.last_entry
            if ledger.state is LedgerState.OPEN:
                self.world.nodes.write(path, begin_recovery(data), version)
                yield always
                continue
            starts = {each.name: each.starts for each in self.world.bookies.values() if each.is_up}
            waits = self.world.a_disk_is_lost or self.world.chance(0.5)
            recovery = LedgerRecovery(
                number,
                ledger,
                must_answer=starts if waits else (),
                replacements=() if waits else list(starts),
            )
            try:
                while recovery.end is None:
                    recovery.proceed((yield from self._ask(number, recovery.ask, starts)))
            except WalWriteError:
                continue
            self.world.nodes.write(path, close_ledger(data, *recovery.end), version)
            yield always

    def _ask(
        self, number: int, ask: Ask, starts: dict[str, int]
    ) -> Generator[Condition, None, dict[str, Reply]]:
        waiting = Waiting({})
        fences = self.world.client.fences_reads or ask.entry < 0
        for name in ask.bookies:
            if not self.world.bookies[name].is_up or starts.get(name) != self.world.bookies[name].starts:
                continue  # its connection is lost
            connection = waiting.pending[name] = self._connect_to_ask(waiting, name, number)
            if ask.what is Asked.WRITE:
                head = encode_entry_head(number, ask.entry, ask.last_confirmed, ask.length, ask.payload)
                connection.send(encode_add(KEY, head, len(ask.payload), recovery=True), ask.payload)
            elif not self.world.chance(self.world.lost_fences):
                connection.send(encode_read(number, ask.entry, KEY if fences else b""))
        self.world.waiting.append(waiting)
        yield lambda: not waiting.pending
        self.world.waiting.remove(waiting)
        return waiting.replies

    def _connect_to_ask(self, waiting: Waiting, name: str, number: int) -> Connection:
        def on_answer(answer: Answer) -> None:
            waiting.pending.pop(name, None)
            entry: Entry | None = None
            verdict = answer.verdict
            if verdict is Verdict.OK and answer.body:
                try:
                    entry = decode_entry(answer.body, number, None if answer.entry < 0 else answer.entry)
                except DataCorruptionError:
                    verdict = Verdict.UNKNOWN
            waiting.replies[name] = Reply(verdict, entry)

        def on_lost() -> None:
            waiting.pending.pop(name, None)

        connection = Connection(self.world.bookies[name], on_answer, on_lost)
        self.world.connections.append(connection)
        return connection
