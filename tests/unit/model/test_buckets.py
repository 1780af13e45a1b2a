"""Buckets of streams, as the protocol's documents compute them."""

import pytest

from headrace.model.buckets import bucket_of, string_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("scope/stream", 1341647771),
        ("SegmentToContainerMapper", 1661405012),
        ("polygenelubricants", -(1 << 31)),
    ],
)
def test_the_hash_is_that_of_java(text, value):
    assert string_hash(text) == value


def test_a_stream_is_in_the_bucket_that_the_protocol_says():
    assert bucket_of("scope", "stream", 100) == 71


def test_every_bucket_gets_about_as_many_streams():
    counts = [0] * 16
    for number in range(16_000):
        counts[bucket_of("scope", f"stream-{number}", 16)] += 1
    assert min(counts) > 700
    assert max(counts) < 1300
