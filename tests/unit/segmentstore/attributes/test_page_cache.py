"""Pages stay within a bound, inner ones longer than leaves."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.attributes.page_cache import PageCache


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 20), st.integers(1, 60), st.booleans(), st.booleans()),
        max_size=80,
    )
)
def test_the_bound_holds_and_a_page_is_the_one_last_put_there(steps):
    cache = PageCache(100)
    put = {}
    for tree, offset, size, inner, drops in steps:
        if drops:
            cache.drop(tree, offset)
            put.pop((tree, offset), None)
        else:
            page = put[tree, offset] = bytes([offset]) * size
            cache.put(tree, offset, page, inner=inner)
        cache.check()
    for (tree, offset), page in put.items():
        assert cache.find(tree, offset) in (None, page)


def test_an_inner_page_outlives_leaves_that_were_used_later():
    cache = PageCache(100)
    cache.put(1, 0, bytes(20), inner=True)
    for offset in range(1, 50):
        cache.put(1, offset, bytes(20), inner=False)
    assert cache.find(1, 0) is not None
    assert cache.find(1, 1) is None


def test_a_page_larger_than_the_cache_is_not_kept():
    cache = PageCache(100)
    cache.put(1, 0, bytes(101), inner=False)
    assert len(cache) == 0


def test_statistics_say_what_is_there_and_what_was_asked_for():
    cache = PageCache(100)
    first, second = cache.new_tree(), cache.new_tree()
    cache.put(first, 0, bytes(60), inner=True)
    cache.put(second, 0, bytes(30), inner=False)
    assert cache.find(first, 0) is not None
    assert cache.find(second, 60) is None
    statistics = cache.statistics()
    assert (statistics.pages, statistics.bytes, statistics.inner_bytes) == (2, 90, 60)
    assert (statistics.found, statistics.missed, statistics.bytes_max) == (1, 1, 100)
