"""What a look at the nodes of a cluster says, and which clusters are not made."""

import pytest

from headrace.cli import main as entry
from headrace.cli.cluster.init import make_facts
from headrace.cluster.claim_node import Claim
from headrace.cluster.facts_node import Facts
from headrace.cluster.leader_node import Candidate
from headrace.cluster.map_node import ContainerMap, Placement
from headrace.cluster.status import Seen, containers_of, document_of, problems_of
from headrace.cluster.store_node import StoreNode
from headrace.coordination.member_node import MemberNode
from headrace.errors import InvalidArgumentError
from headrace.limits import CONTAINERS_MAX
from headrace.model.endpoint import Endpoint

FACTS = Facts("aa", 2, 2, "file:///logs", "file:///chunks", 2)
A, B = StoreNode(Endpoint("a", 1)), StoreNode(Endpoint("b", 1), draining=True)
LEADER = (Candidate("c1", "c:10080"),)


def mapped(*stores):
    return ContainerMap(3, tuple(Placement(store, 3, 0) for store in stores))


def test_a_cluster_in_which_everything_is_served_has_no_problem():
    seen = Seen(
        FACTS,
        mapped("a", "b"),
        {0: Claim("a", 7), 1: Claim("b", 2)},
        {"a": A, "b": B},
        LEADER,
        {"m": MemberNode(Endpoint("c", 9090), 0, "0.1.0")},
        {1: "m"},
    )
    found = document_of(seen)
    assert (found["served"], found["problems"], found["leader"]) == (True, [], "c:10080")
    assert found["controllers"][0]["buckets"] == [1]
    assert found["freeBuckets"] == [0]
    assert [(each["draining"], each["containers"]) for each in found["stores"]] == [(False, [0]), (True, [1])]
    assert not any(each["drainedByOperator"] for each in found["stores"])
    seen.drained = {"a"}
    assert [each["draining"] for each in document_of(seen)["stores"]] == [True, True]
    assert [(each["address"], each["epoch"]) for each in found["containers"]] == [("a:1", 7), ("b:1", 2)]


def test_what_moves_is_served_where_it_is_claimed():
    seen = Seen(FACTS, mapped("b", "b"), {0: Claim("a", 7), 1: Claim("b", 2)}, {"a": A, "b": B}, LEADER)
    assert [each.why for each in containers_of(seen)] == ["it is to move to b", ""]
    assert problems_of(seen) == []


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (Seen(FACTS, candidates=LEADER), "there is no segment store"),
        (Seen(FACTS, stores={"a": A}), "there is no controller that places it"),
        (Seen(FACTS, None, {}, {"a": A}, LEADER), "the leader has not placed it yet"),
        (Seen(FACTS, mapped("x", "x"), {}, {"a": A}, LEADER), "its store x is gone"),
        (Seen(FACTS, mapped("a", "a"), {}, {"a": A}, LEADER), "a:1 recovers it"),
        (Seen(FACTS, mapped("a", "a"), {0: Claim("x", 1)}, {"a": A}, LEADER), "a:1 recovers it"),
        (
            Seen(FACTS, mapped("a", "a"), {}, {"a": StoreNode(Endpoint("a", 1), failures={0: 3})}, LEADER),
            "it failed 3 times at a:1",
        ),
    ],
)
def test_why_a_container_is_not_served(seen, why):
    state = containers_of(seen)[0]
    assert not state.served
    assert why in state.why
    assert any(each.startswith(f"container 0 is not served: {why}") for each in problems_of(seen))


def test_facts_are_drawn_and_completed():
    one, two = (make_facts(4, 16, None, "s3://bucket/prefix") for _ in range(2))
    assert one.system != two.system
    assert one.log.startswith("file:///")
    assert one.log.endswith("/headrace-logs")
    assert one.host == two.host != ""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((0, 16, None, "s3://bucket"), "0 containers: a cluster has 1 to 1024"),
        ((CONTAINERS_MAX + 1, 16, None, "s3://bucket"), "1025 containers: a cluster has 1 to 1024"),
        ((4, 0, None, "s3://bucket"), "0 buckets"),
        ((4, 16, "hdfs://host:1/log", "s3://bucket"), "cannot have the log"),
        ((4, 16, "s3://bucket/log", "file:///chunks"), "name a bucket for them, or hdfs"),
        ((4, 16, "file:///a", "memory://"), "memory:// is of one process"),
        ((4, 16, "file:///a", "file:///a"), "cannot be in the same directory"),
        ((4, 16, "logs", "file:///a"), "no storage URI"),
    ],
)
def test_a_cluster_that_could_not_work_is_not_made(given, told):
    with pytest.raises(InvalidArgumentError, match=told):
        make_facts(*given)


def test_a_birth_with_more_containers_than_a_store_takes_asks_no_coordinator(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--containers", str(CONTAINERS_MAX + 1), "--storage", f"file://{tmp_path}/chunks"]
    nobody = "zk://127.0.0.1:1/root"  # it would have been exit code 3
    assert entry.main(["cluster", "init", "--coordinator", nobody, *words]) == 2
    assert "1025 containers: a cluster has 1 to 1024, and nothing was made" in capsys.readouterr().err
    assert entry.main(["cluster", "local", "--data-dir", "data", *words]) == 2
    assert not [*tmp_path.iterdir()]
