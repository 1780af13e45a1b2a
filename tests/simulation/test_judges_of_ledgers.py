"""The judge of `ledgers` can convict: what a client of BookKeeper must never do, planted, is found.

What a recovery must never do is planted in ``tests/unit/wal/bookkeeper/test_fencing_race.py``, where every
order of a take-over is tried: its rules stand in for each other, so that chance seldom convicts.
"""

import pytest

from headrace.errors import HeadraceError
from headrace.wal.bookkeeper.ledger_writer import End, LedgerWriter
from tests.effort import soak
from tests.simulation.scenarios import ledgers
from tests.simulation.worlds.ledger_world import Client, JudgementError

SEEDS_MAX = 400


def acknowledge_after_the_close(monkeypatch):
    honest = LedgerWriter._confirm

    def confirm(writer, progress):
        cause, writer.stop_cause = writer.stop_cause, None
        honest(writer, progress)
        writer.stop_cause = cause

    monkeypatch.setattr(LedgerWriter, "_confirm", confirm)


def append_again_what_the_ledger_has(monkeypatch):
    def end_at(writer, last_entry):
        return End([], [each.entry for each in writer._unconfirmed])

    monkeypatch.setattr(LedgerWriter, "end_at", end_at)


def acknowledge_with_one_bookie(monkeypatch):
    honest = LedgerWriter.__init__

    def init(writer, ledger, bookies, quorums, **rest):
        honest(writer, ledger, bookies, quorums, **rest)
        writer.quorums = type(quorums)(quorums.ensemble, quorums.write, 1)

    monkeypatch.setattr(LedgerWriter, "__init__", init)


PLANTED = {
    each.__name__: (each, Client())
    for each in (
        acknowledge_after_the_close,
        append_again_what_the_ledger_has,
        acknowledge_with_one_bookie,
    )
} | {
    "use_a_frame_again_too_early": (None, Client(reuses_early=True)),
    "add_a_ledger_to_a_log_of_another_owner": (None, Client(checks_owner=False)),
}


def first_conviction(client):
    for seed in range(SEEDS_MAX):
        try:
            ledgers.run(seed, client)
        except (JudgementError, HeadraceError):
            return seed
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_client_is_convicted(name, monkeypatch):
    plant, client = PLANTED[name]
    if plant is not None:
        plant(monkeypatch)
    assert first_conviction(client) is not None


@soak
def test_a_sound_client_never_is():
    assert first_conviction(Client()) is None
