from hypothesis import given
from hypothesis import strategies as st

from headrace.client.tables.page_merge import PageMerge


def paged(items, sizes):
    """Cut items into pages; the last one may be empty, as of a server that has nothing more."""
    pages, at = [], 0
    for size in sizes:
        pages.append(items[at : at + size])
        at += size
        if at >= len(items):
            break
    pages += [items[at:]] if at < len(items) else []
    return [page for page in pages if page]


@given(
    st.lists(st.lists(st.binary(min_size=2, max_size=2), unique=True, max_size=40), min_size=1, max_size=6),
    st.lists(st.integers(1, 7), min_size=1, max_size=40),
    st.booleans(),
)
def test_pages_become_one_sequence(partitions, sizes, empty_ends):
    owned = [sorted((key, n) for key in keys) for n, keys in enumerate(partitions)]
    pages = [paged(items, sizes) for items in owned]
    merge = PageMerge(len(partitions))
    given_out = []
    while True:
        for n in merge.wanted:
            page = pages[n].pop(0) if pages[n] else []
            merge.add(n, page, is_last=not page or (not pages[n] and not empty_ends))
        taken = merge.take()
        if not taken:
            break
        given_out += taken
    assert [key for key, _ in given_out] == sorted(key for items in owned for key, _ in items)
    assert sorted(given_out) == sorted(item for items in owned for item in items)


def test_nothing_is_given_out_that_a_later_page_could_precede():
    merge = PageMerge(2)
    merge.add(0, [(b"a",), (b"m",)], is_last=False)
    merge.add(1, [(b"b",), (b"c",)], is_last=False)
    assert merge.take() == [(b"a",), (b"b",), (b"c",)]
    assert merge.wanted == [1]
    merge.add(1, [], is_last=True)
    assert merge.take() == [(b"m",)]
    assert merge.wanted == [0]
    merge.add(0, [(b"n",)], is_last=True)
    assert merge.take() == [(b"n",)]
    assert merge.take() == []
