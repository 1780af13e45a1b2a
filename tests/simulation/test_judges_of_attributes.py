"""The judge of `attributes` can convict: each bug here loses or invents the value of an attribute."""

import asyncio
import logging

import pytest

from headrace.btree.footer_format import FOOTER_BYTES
from headrace.errors import CorruptionError
from headrace.model.attributes import ATTRIBUTE_NULL, is_core_attribute
from headrace.segmentstore.attributes.attribute_values import AttributeValues
from headrace.segmentstore.attributes.segment_index import SegmentIndex
from headrace.segmentstore.attributes.segment_indexes import SegmentIndexes
from headrace.segmentstore.segment_names import is_index
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from tests.effort import sampled
from tests.simulation.run_seeds import run_one


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


def free_pages_too_early(monkeypatch):
    async def truncate(index, root):
        await index._storage().truncate(index._name, root.end - FOOTER_BYTES)

    monkeypatch.setattr(SegmentIndex, "_truncate", truncate)


def publish_a_root_before_its_rows_are_committed(monkeypatch):
    honest = ChunkedSegmentStorage.write

    async def write(storage, segment, *args, **options):
        writing = asyncio.ensure_future(honest(storage, segment, *args, **options))
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not is_index(segment):
            await asyncio.shield(writing)

    monkeypatch.setattr(ChunkedSegmentStorage, "write", write)


def replace_what_was_accepted_while_the_index_was_read(monkeypatch):
    def fill(attributes, keys, values):
        for key, value in zip(keys, values, strict=True):
            attributes.accepted[key] = attributes.durable[key] = value

    monkeypatch.setattr(SegmentAttributes, "fill", fill)


def load_without_a_hold(monkeypatch):
    monkeypatch.setattr(SegmentAttributes, "hold", lambda attributes, keys: None)
    monkeypatch.setattr(SegmentAttributes, "release", lambda attributes, keys: None)


def load_nothing(monkeypatch):
    async def load(values, segment, keys):
        segment.attributes.fill(keys, [ATTRIBUTE_NULL] * len(keys))

    monkeypatch.setattr(AttributeValues, "load", load)


def note_as_written_what_changed_meanwhile(monkeypatch):
    def note_written(attributes, values):
        attributes.newer -= values.keys()

    monkeypatch.setattr(SegmentAttributes, "note_written", note_written)


def leave_newer_values_out_of_checkpoints(monkeypatch):
    honest = SegmentAttributes.checkpoint_values

    def checkpoint_values(attributes):
        values = honest(attributes)
        if not attributes.has_index:
            return values
        return {key: value for key, value in values.items() if is_core_attribute(key)}

    monkeypatch.setattr(SegmentAttributes, "checkpoint_values", checkpoint_values)


def forget_a_removal_before_the_index_has_it(monkeypatch):
    honest = SegmentAttributes.accept

    def accept(attributes, values):
        honest(attributes, values)
        for key in [key for key in attributes.newer if attributes.accepted[key] == ATTRIBUTE_NULL]:
            del attributes.accepted[key]
            attributes.newer.discard(key)

    monkeypatch.setattr(SegmentAttributes, "accept", accept)


def leave_the_index_of_a_deleted_segment(monkeypatch):
    async def delete(indexes, segment):
        indexes.drop(segment)

    monkeypatch.setattr(SegmentIndexes, "delete", delete)


def forget_that_there_is_an_index(monkeypatch):
    """As an owner that has recovered and has not seen the rows."""
    monkeypatch.setattr("headrace.segmentstore.state.container_state.is_index", lambda name: False)
    monkeypatch.setattr("headrace.segmentstore.state.metadata_checkpoint._HAS_INDEX", 0)


#: Each with how many seeds have to find it, and the last one that did: it goes first.
BUGS = [
    (free_pages_too_early, 12, 1),
    (publish_a_root_before_its_rows_are_committed, 40, 0),
    (replace_what_was_accepted_while_the_index_was_read, 120, 18),
    (load_without_a_hold, 40, 2),
    (load_nothing, 12, 2),
    (note_as_written_what_changed_meanwhile, 40, 2),
    (leave_newer_values_out_of_checkpoints, 12, 0),
    (forget_a_removal_before_the_index_has_it, 12, 2),
    (leave_the_index_of_a_deleted_segment, 120, 42),
    (forget_that_there_is_an_index, 12, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "seeds", "first"), sampled(BUGS), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_planted_bug_is_found(plant, seeds, first, monkeypatch):
    plant(monkeypatch)
    for seed in (first, *range(seeds)):
        try:
            run_one("attributes", seed)
        except (AssertionError, CorruptionError):  # of the judge, or the store sees it itself
            return
    pytest.fail(f"{seeds} seeds have not found it")
