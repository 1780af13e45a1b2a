"""The bytes of every version are pinned for ever."""

from pathlib import Path

import pytest

from headrace.cluster.claim_node import Claim, decode_container_claim, encode_container_claim
from headrace.cluster.drain_node import Drain, decode_drain, encode_drain
from headrace.cluster.facts_node import Facts, decode_facts, encode_facts
from headrace.cluster.leader_node import Candidate, decode_candidate, encode_candidate
from headrace.cluster.map_node import ContainerMap, Placement, decode_map, encode_map
from headrace.cluster.store_node import StoreNode, decode_store, encode_store
from headrace.controller.buckets.claim_node import ClaimNode, decode_claim, encode_claim
from headrace.coordination.member_node import MemberNode, decode_member, encode_member
from headrace.errors import DataCorruptionError
from headrace.model.endpoint import Endpoint

FOLDER = Path(__file__).parent / "coordination_nodes"
SAMPLES = {
    "member": (
        MemberNode(Endpoint("one.example", 9090), 1_700_000_000_000, "0.1.0", (2, 300)),
        encode_member,
        decode_member,
    ),
    "claim": (ClaimNode("0123456789abcdef", 300), encode_claim, decode_claim),
    "store": (
        StoreNode(
            Endpoint("store.example", 12345),
            Endpoint("::1", 10080),
            "rack-7",
            "0011223344556677",
            3,
            1_700_000_000_000,
            "0.2.0",
            (1, 2),
            draining=True,
            failures={2: 1, 300: 4},
        ),
        encode_store,
        decode_store,
    ),
    "plain_store": (StoreNode(Endpoint("store.example", 12345)), encode_store, decode_store),
    "candidate": (Candidate("0123456789abcdef", "example.org:10080"), encode_candidate, decode_candidate),
    "map": (
        ContainerMap(
            300,
            (
                Placement("fedcba9876543210", 1, 1_700_000_000_000),
                Placement(),
                Placement("0123456789abcdef", 300, 1_700_000_000_999),
            ),
        ),
        encode_map,
        decode_map,
    ),
    "container_claim": (Claim("0123456789abcdef", 70_000), encode_container_claim, decode_container_claim),
    "drain": (Drain(Endpoint("store.example", 12345), 1_700_000_000_000), encode_drain, decode_drain),
    "facts": (
        Facts(
            "00112233445566778899aabbccddeeff",
            9,
            16,
            "file:///data/wal",
            "s3://bucket/chunks",
            2,
            "0011223344556677",
            frozenset({0, 8}),
        ),
        encode_facts,
        decode_facts,
    ),
}


def newest(name):
    return max(FOLDER.glob(f"v*/{name}.bin"))


@pytest.mark.parametrize("name", SAMPLES)
def test_nodes_are_written_and_read_as_ever(name):
    node, encode, decode = SAMPLES[name]
    pinned = newest(name).read_bytes()
    assert decode(pinned) == node
    assert encode(node) == pinned
    for damaged in (pinned[:-1], pinned + b"\0", b"?" + pinned[1:]):
        with pytest.raises(DataCorruptionError):
            decode(damaged)


def test_what_contradicts_itself_is_no_node():
    for data, decode in (
        (b"m\1\1\0\1\1\0\0", decode_map),  # the first store, of none
        (encode_store(StoreNode(Endpoint("a", 1))).replace(b"\1\0\0\0\0\0", b"\0\0\0\0\0\0"), decode_store),
        (encode_facts(Facts("", 3, 1, "", "", 1))[:-1] + b"\x08", decode_facts),  # container 3, of 3
        (encode_facts(Facts("", 9, 1, "", "", 1)).replace(b"f\1\0\x09", b"f\1\0\x08"), decode_facts),
    ):
        with pytest.raises(DataCorruptionError):
            decode(data)


def test_every_pinned_node_has_its_sample():
    assert {path.stem for path in FOLDER.glob("v*/*.bin")} == set(SAMPLES)


def test_a_controller_of_before_says_no_formats_and_is_read():
    node = decode_member((FOLDER / "v1" / "member.bin").read_bytes())
    assert node == MemberNode(Endpoint("one.example", 9090), 1_700_000_000_000, "0.1.0")
