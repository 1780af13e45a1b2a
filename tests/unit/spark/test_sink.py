"""The sink without a JVM: tasks, retries, crashes and lost answers, against a store that keeps watermarks."""

import pickle
import random

import pyarrow as pa
import pytest

from headrace.errors import InvalidArgumentError, PreconditionError, TransactionStateError
from headrace.model.names import SINGLE_BATCH_QUERY
from headrace.spark import sink, sink_target
from headrace.spark.identity import BatchIdentity, batch_job_identity
from headrace.spark.options import parse_sink
from headrace.spark.sink import Written, abort_batch, commit_batch, write_rows
from tests.effort import seeds
from tests.unit.spark.fakes import FakeStore, FakeTransaction

OPTIONS = parse_sink({"scope": "s", "stream": "t"}, streaming=True)


@pytest.fixture
def store(monkeypatch):
    store = FakeStore()
    for module in (sink, sink_target):
        monkeypatch.setattr(module, "client_for", lambda _: store)
    monkeypatch.setattr(sink_target, "txn_writer_for", lambda *_: store)
    monkeypatch.setattr(sink_target, "BlockingTransaction", FakeTransaction)
    return store


def _rows(numbers, keys=None):
    columns = {"event": pa.array([str(number) for number in numbers], pa.string())}
    if keys is not None:
        columns["routing_key"] = pa.array(keys, pa.string())
    return pa.RecordBatch.from_pydict(columns)


def _write(identity, numbers):
    return pickle.loads(pickle.dumps(write_rows(OPTIONS, iter([_rows(numbers)]), identity)))


def _numbers(store):
    return [int(event) for event, _ in store.visible]


def test_rows_are_visible_after_the_commit_and_not_before(store):
    identity = BatchIdentity("q", "q", 0)
    messages = [_write(identity, [1, 2]), _write(identity, [3])]
    assert store.visible == []
    commit_batch(OPTIONS, messages, 0)
    assert _numbers(store) == [1, 2, 3]
    commit_batch(OPTIONS, messages, 0)
    assert _numbers(store) == [1, 2, 3]


def test_a_task_without_rows_opens_no_transaction(store):
    identity = BatchIdentity("q", "q", 0)
    for batches in ([], [_rows([])]):
        message = write_rows(OPTIONS, iter(batches), identity)
        assert message == Written(identity, None, 0)
    assert store.next_id == 1
    commit_batch(OPTIONS, [message], 0)


def test_a_repeated_batch_writes_nothing(store):
    identity = BatchIdentity("q", "q", 5)
    commit_batch(OPTIONS, [_write(identity, [1])], 5)
    assert _write(identity, [1]).txn_id is None
    assert _write(BatchIdentity("q", "q", 4), [0]).txn_id is None
    assert store.open == {}


def test_rows_with_and_without_keys_arrive_with_their_keys(store):
    keys = ["a", None, "b", None]
    message = write_rows(OPTIONS, iter([_rows(range(4), keys)]), BatchIdentity("q", "q", 0))
    commit_batch(OPTIONS, [message], 0)
    assert sorted(store.visible) == [(b"0", "a"), (b"1", None), (b"2", "b"), (b"3", None)]


def test_a_failing_task_aborts_its_transaction_and_raises_its_own_error(store):
    def failing():
        yield _rows([1])
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        write_rows(OPTIONS, failing(), BatchIdentity("q", "q", 0))
    assert store.open == {}
    with pytest.raises(InvalidArgumentError, match="null"):
        write_rows(
            OPTIONS,
            iter([pa.RecordBatch.from_pydict({"event": pa.array([None], pa.string())})]),
            BatchIdentity("q", "q", 0),
        )
    assert store.open == {}


def test_another_query_is_refused_with_the_way_out(store):
    commit_batch(OPTIONS, [_write(BatchIdentity("app", "one", 3), [1])], 3)
    message = _write(BatchIdentity("app", "two", 0), [2])
    with pytest.raises(PreconditionError, match="on_foreign_query=takeover"):
        commit_batch(OPTIONS, [message], 0)
    assert _numbers(store) == [1]
    permissive = parse_sink({"scope": "s", "stream": "t", "on_foreign_query": "takeover"}, streaming=True)
    commit_batch(permissive, [message], 0)
    assert _numbers(store) == [1, 2]


def test_an_expired_transaction_fails_the_batch_and_decides_nothing(store):
    messages = [_write(BatchIdentity("q", "q", 0), [number]) for number in range(2)]
    del store.open[messages[1].txn_id]
    with pytest.raises(TransactionStateError, match="transaction_timeout_ms"):
        commit_batch(OPTIONS, messages, 0)
    assert store.visible == []


def test_abort_never_raises_and_never_undoes_a_decision(store, monkeypatch):
    identity = BatchIdentity("q", "q", 0)
    messages = [_write(identity, [1])]
    commit_batch(OPTIONS, messages, 0)
    abort_batch(OPTIONS, messages, None)
    assert _numbers(store) == [1]
    abort_batch(OPTIONS, [None, None], None)
    assert store.aborted_batches == [("q", "q", 0)]
    monkeypatch.setattr(sink, "client_for", lambda _: 1 / 0)
    abort_batch(OPTIONS, messages, None)


def test_messages_of_different_batches_are_never_mixed(store):
    messages = [_write(BatchIdentity("q", "q", batch), [batch]) for batch in (0, 1)]
    with pytest.raises(PreconditionError, match="disagree"):
        commit_batch(OPTIONS, messages, 1)
    with pytest.raises(PreconditionError, match="Spark commits batch 2"):
        commit_batch(OPTIONS, messages[1:], 2)
    assert store.visible == []


@pytest.mark.slow
def test_what_is_visible_is_always_whole_batches_once_under_random_crashes(store):
    """Tasks are retried, answers get lost, drivers die anywhere; a repeated batch is split differently."""
    for seed in seeds(400):
        store.__init__()
        chance = random.Random(seed)
        late = []
        for batch in range(5):
            rows = range(10 * batch, 10 * batch + 10)
            identity = BatchIdentity("q", "q", batch)
            while True:  # one turn per life of the driver
                cuts = sorted(chance.sample(range(11), 2))
                parts = [rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]]
                messages = []
                for part in parts:
                    for _ in range(chance.choice((1, 1, 1, 2))):  # the earlier attempt is an orphan
                        message = _write(identity, part)
                    messages.append(message)
                fault = chance.choice(("", "", "before", "lost", "after", "late"))
                if fault == "before":
                    abort_batch(OPTIONS, chance.choice((messages, [None] * 3)), None)
                    continue
                if fault == "late":  # the request of a dead driver arrives during the repetition
                    late.append((messages, batch))
                    continue
                store.lose_answer = fault == "lost" and any(each.txn_id for each in messages)
                try:
                    if late and chance.random() < 0.5:
                        _arrive(late.pop(), store)
                    commit_batch(OPTIONS, messages, batch)
                except ConnectionError:
                    abort_batch(OPTIONS, messages, None)
                    continue
                except TransactionStateError:
                    continue
                if fault == "after":
                    continue
                break
            assert sorted(_numbers(store)) == list(range(10 * batch + 10)), f"seed {seed}, batch {batch}"
        while late:
            _arrive(late.pop(), store)
        assert sorted(_numbers(store)) == list(range(50)), f"seed {seed}"


def _arrive(request, store):
    lose, store.lose_answer = store.lose_answer, False
    try:
        commit_batch(OPTIONS, *request)
    except TransactionStateError:
        pass
    finally:
        store.lose_answer = lose


def test_a_job_without_an_application_says_that_it_is_a_single_batch():
    first, second = batch_job_identity("", 0), batch_job_identity("", 0)
    assert first.sink != second.sink
    assert first.query == second.query == SINGLE_BATCH_QUERY != first.sink


def test_an_application_numbers_batches_of_its_own_whatever_its_name():
    identity = batch_job_identity(SINGLE_BATCH_QUERY, 3)
    assert identity == BatchIdentity(SINGLE_BATCH_QUERY, SINGLE_BATCH_QUERY, 3)
