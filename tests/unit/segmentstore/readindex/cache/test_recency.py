from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.readindex.cache.recency import RecencyQueue


@given(st.lists(st.tuples(st.sampled_from(["push", "remove", "refresh"]), st.integers(0, 9)), max_size=60))
def test_it_behaves_like_an_ordered_dict(steps):
    queue = RecencyQueue(array("I", bytes(40)), array("I", bytes(40)))
    model: dict[int, int] = {}
    for action, block in steps:
        if action == "push" and block not in model:
            queue.push(block, block + 1)
            model[block] = block + 1
        elif action == "remove" and block in model:
            queue.remove(block, model.pop(block))
        elif action == "refresh" and block in model:
            queue.refresh(block)
            model[block] = model.pop(block)
        assert list(queue) == list(model)
        assert (queue.count, queue.blocks) == (len(model), sum(model.values()))


def test_queues_share_their_links():
    links = array("I", bytes(40)), array("I", bytes(40))
    first, second = RecencyQueue(*links), RecencyQueue(*links)
    for block in range(0, 10, 2):
        first.push(block, 1)
        second.push(block + 1, 1)
    first.remove(4, 1)
    second.push(4, 1)
    assert list(first) == [0, 2, 6, 8]
    assert list(second) == [1, 3, 5, 7, 9, 4]
