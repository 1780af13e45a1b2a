"""Every implementation of a segment's attributes passes the same kit."""

from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.testing.conformance.segment_attributes import SegmentAttributesContract
from tests.unit.segmentstore.forgetful_attributes import ForgetfulAttributes


class TestInMemory(SegmentAttributesContract):
    def make(self, values):
        return SegmentAttributes(values)


class TestWithAnIndexBehind(SegmentAttributesContract):
    def make(self, values):
        return ForgetfulAttributes(values)

    def evict(self, attributes):
        attributes.evict()
