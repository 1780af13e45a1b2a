"""The bytes of version 1 are pinned for ever."""

from pathlib import Path

import pytest

from headrace.controller.buckets.claim_node import ClaimNode, decode_claim, encode_claim
from headrace.coordination.member_node import MemberNode, decode_member, encode_member
from headrace.errors import DataCorruptionError
from headrace.model.endpoint import Endpoint

GOLDEN = Path(__file__).parents[3] / "golden" / "coordination_nodes" / "v1"
SAMPLES = {
    "member": (
        MemberNode(Endpoint("one.example", 9090), 1_700_000_000_000, "0.1.0"),
        encode_member,
        decode_member,
    ),
    "claim": (ClaimNode("0123456789abcdef", 300), encode_claim, decode_claim),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_nodes_are_written_and_read_as_ever(name):
    node, encode, decode = SAMPLES[name]
    pinned = (GOLDEN / f"{name}.bin").read_bytes()
    assert decode(pinned) == node
    assert encode(node) == pinned
    for damaged in (pinned[:-1], pinned + b"\0", b"?" + pinned[1:]):
        with pytest.raises(DataCorruptionError):
            decode(damaged)


def test_every_pinned_node_has_its_sample():
    assert {path.stem for path in GOLDEN.glob("*.bin")} == set(SAMPLES)
