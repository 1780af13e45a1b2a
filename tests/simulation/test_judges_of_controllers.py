"""The judges of controllers can convict: each bug here is a plausible one, and a few seeds find it."""

import logging

import pytest

from headrace.controller.streams.epoch_reader import EpochReader
from headrace.controller.streams.stream import Stream
from headrace.controller.streams.subscribers import Subscribers
from headrace.controller.workflows import catalogue, scale_stream
from headrace.controller.workflows.truncate_stream import finish_truncate
from tests.effort import sampled, seeds
from tests.simulation.run_seeds import run_one
from tests.unit.controller.segment_stores import FakeSegmentStores


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


def carry_a_commit_out_twice(monkeypatch):
    """What another controller has merged, or this one before a lost reply, is merged once more."""
    merge, merge_batch, merged = FakeSegmentStores._merge, FakeSegmentStores.merge_batch, {}

    def remember(stores, target, source):
        merged[source] = bytes(stores.segments[source].data)
        return merge(stores, target, source)

    async def merge_again(stores, target, sources):
        for source in sources:
            if source not in stores.segments:
                stores._segment(target).data += merged.get(source, b"")
        return await merge_batch(stores, target, sources)

    monkeypatch.setattr(FakeSegmentStores, "_merge", remember)
    monkeypatch.setattr(FakeSegmentStores, "merge_batch", merge_again)


def lose_a_successor(monkeypatch):
    honest = EpochReader.successors

    async def successors(reader, segment_id):
        found = await honest(reader, segment_id)
        return found[:-1] if len(found) > 1 else found

    monkeypatch.setattr(EpochReader, "successors", successors)


def create_one_segment_less(monkeypatch):
    honest = scale_stream.create_segments

    async def create_segments(context, stream, segments, **rest):
        segments = list(segments)
        await honest(context, stream, segments[:-1] if len(segments) > 1 else segments, **rest)

    monkeypatch.setattr(scale_stream, "create_segments", create_segments)


def leave_open_what_a_scale_replaces(monkeypatch):
    honest = Stream.seal

    async def seal(stream, segment_ids, epoch):
        if epoch is None:  # with the stream
            await honest(stream, segment_ids, epoch)

    monkeypatch.setattr(Stream, "seal", seal)


def forget_a_truncation_that_was_begun(monkeypatch):
    """By a former owner, or before a failure: who takes it over takes it for done."""
    honest, begun = catalogue.resume_truncate, set()

    async def resume_truncate(context, stream):
        cut = stream.row.truncating
        if cut is None or (stream.uid, cut) not in begun:
            begun.add((stream.uid, cut))
            await honest(context, stream)
        else:
            await stream.update(finish_truncate(cut))

    monkeypatch.setattr(catalogue, "resume_truncate", resume_truncate)


def go_on_after_the_bucket_was_lost(monkeypatch):
    """A former owner writes the row that it knows over that of its successor."""
    honest = Stream.update

    async def update(stream, transition):
        found = await stream._store.get(stream.table, stream.key)
        if found is not None:
            stream.version = found.version
        return await honest(stream, transition)

    monkeypatch.setattr(Stream, "update", update)


def forget_subscribers(monkeypatch):
    async def cuts(*_):
        return []

    monkeypatch.setattr(Subscribers, "cuts", cuts)


#: Each with the number of seeds that find it, and the last seed that did: it goes first.
BUGS = [
    (carry_a_commit_out_twice, 12, 2),
    (lose_a_successor, 12, 0),
    (create_one_segment_less, 12, 0),
    (leave_open_what_a_scale_replaces, 12, 0),
    (forget_a_truncation_that_was_begun, 120, 1),
    (go_on_after_the_bucket_was_lost, 40, 2),
    (forget_subscribers, 40, 0),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "count", "first"), sampled(BUGS), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_planted_bug_is_found(plant, count, first, monkeypatch):
    plant(monkeypatch)
    for seed in (first, *seeds(count)):
        try:
            run_one("controllers", seed)
        except AssertionError:
            return
    pytest.fail(f"{count} seeds have not found it")
