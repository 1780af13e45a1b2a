"""Attributes of which extended ones can leave memory, as behind an index: for tests of that seat."""

import asyncio

from headrace.model.attributes import ATTRIBUTE_NULL, is_core_attribute
from headrace.segmentstore.state.segment_attributes import SegmentAttributes


class ForgetfulAttributes(SegmentAttributes):
    """``evict`` moves settled extended values into ``index``, and only ``load`` brings them back."""

    __slots__ = ("index", "known", "loaded")

    def __init__(self, values=None):
        super().__init__(values or {})
        self.index = {}
        self.known = set(self.durable)
        self.loaded = []

    def evict(self):
        assert self.accepted == self.durable
        for key in [key for key in self.durable if not is_core_attribute(key)]:
            self.index[key] = self.durable.pop(key)
            del self.accepted[key]
        self.known.clear()

    def get(self, attribute_id):
        return None if self.missing((attribute_id,)) else super().get(attribute_id)

    def missing(self, attribute_ids):
        return [
            key
            for key in attribute_ids
            if not (is_core_attribute(key) or key in self.known or key in self.accepted)
        ]

    async def load(self, attribute_ids):
        for key in self.missing(attribute_ids):
            await asyncio.sleep(0)
            self.loaded.append(key)
            self.known.add(key)
            value = self.index.get(key, ATTRIBUTE_NULL)
            if value != ATTRIBUTE_NULL and key not in self.accepted:
                self.accepted[key] = self.durable[key] = value

    def propose(self, segment, updates):
        assert not self.missing(update.attribute_id for update in updates), "proposed before it was loaded"
        return super().propose(segment, updates)

    def accept(self, values):
        super().accept(values)
        self.known.update(values)

    def apply(self, values):
        super().apply(values)
        self.index.update(values)

    def checkpoint_values(self):
        return dict(self.accepted)
