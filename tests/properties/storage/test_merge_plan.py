"""Which chunks are merged: bytes stay, chunks do not grow too long, it ends, and no byte moves too often."""

from math import log2

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.storage.chunks.merge_plan import MergePolicy, find_merge, find_resumption, is_mostly_dead
from tests.effort import examples

policies = st.builds(MergePolicy, st.integers(4, 2000), st.integers(2, 8))
lengths_of_chunks = st.lists(st.integers(1, 400), max_size=60)


def merge_all(lengths, policy):
    """Merge until nothing is left; return the lengths then, and how often each chunk's bytes moved."""
    chunks = [(length, [number]) for number, length in enumerate(lengths)]
    moves = [0] * len(lengths)
    while (found := find_merge([length for length, _ in chunks], policy)) is not None:
        merged = chunks[found.start : found.stop]
        assert len(merged) >= max(2, policy.chunks_min)
        members = [number for _, numbers in merged for number in numbers]
        for number in members:
            moves[number] += 1
        chunks[found.start : found.stop] = [(sum(length for length, _ in merged), members)]
    return chunks, moves


@settings(max_examples=examples(300))
@given(lengths_of_chunks, policies)
def test_merging_keeps_order_and_bytes_respects_the_longest_chunk_and_ends(lengths, policy):
    chunks, _ = merge_all(lengths, policy)
    assert [number for _, numbers in chunks for number in numbers] == list(range(len(lengths)))
    for length, numbers in chunks:
        assert length == sum(lengths[number] for number in numbers)
        assert len(numbers) == 1 or length <= policy.target_bytes


@settings(max_examples=examples(300))
@given(lengths_of_chunks, policies)
def test_a_byte_is_rewritten_at_most_as_often_as_its_chunk_can_double_while_it_is_small(lengths, policy):
    _, moves = merge_all(lengths, policy)
    for length, count in zip(lengths, moves, strict=True):
        assert count <= max(0, log2(policy.small_bytes / length)) + 1
        assert not count or length < policy.small_bytes


@settings(max_examples=examples(300))
@given(st.integers(1, 40), st.integers(1, 300), policies)
def test_of_equal_small_chunks_fewer_than_a_merge_are_left_side_by_side(length, count, policy):
    chunks, moves = merge_all([length] * count, policy)
    small = [size for size, _ in chunks if size < policy.small_bytes]
    if length >= policy.small_bytes:
        assert not any(moves)
    else:
        levels = log2(policy.small_bytes / length) + 1
        assert len(small) <= max(2, policy.chunks_min) * (levels + 1)


@settings(max_examples=examples(300))
@given(lengths_of_chunks, lengths_of_chunks, policies)
def test_what_need_not_be_looked_at_again_is_never_part_of_a_merge(before, after, policy):
    if find_merge(before, policy) is None:
        begin = find_resumption(before, policy)
        found = find_merge([*before, *after], policy)
        assert (None if found is None else range(found.start - begin, found.stop - begin)) == find_merge(
            [*before[begin:], *after], policy
        )


def test_a_long_neighbour_does_not_keep_small_ones_apart():
    policy = MergePolicy(1000, 4)
    assert find_merge([240, 10, 10, 10, 10], policy) == range(1, 5)
    assert find_merge([240, 10, 10, 10], policy) is None
    assert find_merge([10, 10, 300, 10, 10, 10, 10, 300], policy) == range(3, 7)
    assert find_merge([240] * 5, policy) == range(4)
    assert find_merge([], policy) is None


def test_the_first_chunk_is_rewritten_if_a_quarter_of_what_is_given_back_is_enough():
    assert is_mostly_dead(4 << 20, 1 << 20)
    assert not is_mostly_dead((4 << 20) - 1, 1 << 20)
    assert not is_mostly_dead((1 << 20) - 1, 1)
