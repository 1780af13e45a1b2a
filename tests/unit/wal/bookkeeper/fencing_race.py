"""The race of a take-over as a small model, which is tried in full: one entry in flight, three bookies, and a
recovery; what each bookie gets, when, and what of it is lost.

The real plans decide. An add reaches each bookie in front of the fence, between the fence and the read,
behind the read, or never; each request of the recovery is lost or not. What the writer is told, it is told as
late and as well as can be: all that bookies took first, their refusals last.
"""

import itertools

from headrace.errors import WalWriteError
from headrace.wal.bookkeeper.entry_format import decode_entry, encode_entry_head
from headrace.wal.bookkeeper.ledger_metadata import Ensemble, LedgerMetadata
from headrace.wal.bookkeeper.ledger_recovery import Asked, LedgerRecovery, Reply
from headrace.wal.bookkeeper.ledger_writer import LedgerWriter
from headrace.wal.bookkeeper.quorums import Quorums
from headrace.wal.bookkeeper.wire_format import LAST_ENTRY, Verdict

BOOKIES = ("a", "b", "c")
BEFORE, BETWEEN, BEHIND, NEVER = range(4)
PAYLOAD = b"in flight"


class RaceBookie:
    def __init__(self):
        self.has_it = self.is_fenced = False
        self.told = None

    def add(self, *, recovery=False):
        if self.is_fenced and not recovery:
            self.told = Verdict.FENCED
            return
        self.has_it = True
        if not recovery:
            self.told = Verdict.OK

    def read(self, number, *, fences):
        self.is_fenced |= fences
        if number > 0 or not self.has_it:
            return Reply(Verdict.ABSENT)
        data = encode_entry_head(1, 0, -1, len(PAYLOAD), PAYLOAD) + PAYLOAD
        return Reply(Verdict.OK, decode_entry(data, 1, 0))


def play(arrivals, lost_fences, lost_reads, *, fences_reads=True):
    """Return whether the writer was answered, and the last entry; None: the recovery was given up."""
    writer = LedgerWriter(1, BOOKIES, Quorums(3, 3, 2), behind_bytes_max=1000)
    writer.add(len(PAYLOAD))
    bookies = dict(zip(BOOKIES, (RaceBookie() for _ in BOOKIES), strict=True))

    def arrive(moment):
        for name, arrival in zip(BOOKIES, arrivals, strict=True):
            if arrival == moment:
                bookies[name].add()

    arrive(BEFORE)
    recovery = LedgerRecovery(
        1, LedgerMetadata(write_quorum=3, ack_quorum=2, ensembles=(Ensemble(0, BOOKIES),))
    )
    end = None
    try:
        while recovery.end is None:
            ask, replies = recovery.ask, {}
            for name in ask.bookies:
                lost = lost_fences if ask.entry == LAST_ENTRY else lost_reads
                if ask.what is Asked.WRITE:
                    bookies[name].add(recovery=True)
                    replies[name] = Reply(Verdict.OK)
                elif not lost[BOOKIES.index(name)]:
                    replies[name] = bookies[name].read(
                        ask.entry, fences=fences_reads or ask.entry == LAST_ENTRY
                    )
            recovery.proceed(replies)
            if ask.entry == LAST_ENTRY:
                arrive(BETWEEN)
        end = recovery.end.last_entry
    except WalWriteError:
        arrive(BETWEEN)
    arrive(BEHIND)
    for verdict in (Verdict.OK, Verdict.FENCED):
        for name in BOOKIES:
            if bookies[name].told is verdict:
                writer.on_answer(name, 0, verdict)
    return writer.confirmed == 0, end


def losses(**client):
    """Return the histories in which an acknowledged entry is not in the closed ledger."""
    found = []
    for arrivals in itertools.product(range(4), repeat=3):
        for lost_fences in itertools.product((False, True), repeat=3):
            for lost_reads in itertools.product((False, True), repeat=3):
                is_answered, end = play(arrivals, lost_fences, lost_reads, **client)
                if is_answered and end is not None and end < 0:
                    found.append((arrivals, lost_fences, lost_reads))
    return found
