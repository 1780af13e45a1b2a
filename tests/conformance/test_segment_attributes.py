"""Attributes behave alike in memory and with an index."""

from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.testing.conformance.segment_attributes import SegmentAttributesContract


class TestInMemory(SegmentAttributesContract):
    def make(self, values):
        return SegmentAttributes(values)


class TestWithAnIndex(SegmentAttributesContract):
    def make(self, values):
        self.index = {}
        attributes = SegmentAttributes(values)
        attributes.note_index()
        return attributes

    def evict(self, attributes):
        written = attributes.unwritten()
        self.index.update(written)
        attributes.note_written(written)
        attributes.evict(0)

    def look_up(self, attributes, attribute_id):
        return self.index.get(attribute_id, ATTRIBUTE_NULL)
