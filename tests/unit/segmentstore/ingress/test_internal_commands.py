"""What processes of Headrace ask each other: over one connection of a real store, and who may."""

import asyncio
import json

import pytest

from headrace.errors import FencedOutError, StorageWriteError
from headrace.processes.beside_store import BesideStore
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.security.permission import Permission
from headrace.security.token_checker import TokenChecker
from headrace.security.tokens import EVERYTHING, TokenKey, issue, stream_claim
from headrace.wire import commands as c
from headrace.wire.commands.internal import CHANGED_BYTES_MAX
from headrace.wire.fields import ListedSegment
from tests.unit.segmentstore.ingress.world import FakeHome, Peer

KEY = TokenKey(b"k" * 64)


@pytest.fixture
async def data_plane():
    data_plane = WiredStore(StandaloneConfig(in_memory=True), system_runtime(), 2)
    await data_plane.start()
    for name in ("s/a/0.#epoch.0", "s/b/0.#epoch.0"):
        await data_plane.store.create_segment(name)
        await data_plane.store.append(name, b"abc")
    yield data_plane
    await data_plane.stop()


@pytest.fixture
def store(data_plane):
    return data_plane.store


@pytest.fixture
async def home(store):
    home = FakeHome(store)
    yield home
    await home.supervisor.stop()


@pytest.fixture
async def peer(home):
    peer = Peer(home)
    await peer.ask(c.Hello(1002, 5))
    return peer


async def ask(peer, request):
    """Ask what takes more than an iteration of the loop."""
    replies = await peer.ask(request)
    while not replies and not peer.closed:
        await asyncio.sleep(0.001)
        replies = await peer.replies()
    return replies


async def test_facts_of_many_segments_come_in_their_order(peer, store):
    await store.seal_segment("s/b/0.#epoch.0")
    names = ["s/b/0.#epoch.0", "s/none/0.#epoch.0", "s/a/0.#epoch.0"]
    (reply,) = await ask(peer, c.GetSegmentInfos(7, "", names))
    assert reply == c.SegmentInfos(
        7, [ListedSegment(True, True, 0, 3), ListedSegment(), ListedSegment(True, False, 0, 3)]
    )


async def test_many_segments_are_deleted_and_absent_ones_are_done_already(peer, store):
    names = ["s/a/0.#epoch.0", "s/none/0.#epoch.0"]
    for number in range(2):
        assert await ask(peer, c.DeleteSegments(number, "", names)) == [c.SegmentsDeleted(number)]
    assert await store.segment_infos(names) == [None, None]


async def test_changed_segments_are_told_in_the_parts_that_were_asked_for(peer):
    found = []
    for part in range(3):
        (reply,) = await ask(peer, c.GetChangedSegments(part, "", b"", part, 3))
        assert reply.complete
        found += reply.changed
    assert sorted(found) == [("s/a/0.#epoch.0", 3), ("s/b/0.#epoch.0", 3)]


async def test_purge_of_what_lives_is_answered(peer):
    names = ["s/a/0.#epoch.0", "s/elsewhere/0.#epoch.0"]
    assert await ask(peer, c.PurgeSegments(3, "", names)) == [c.SegmentsPurged(3, [0, 1])]


async def test_a_purge_that_fails_in_a_container_is_answered_with_why_and_one_that_leaves_is_not(peer, store):
    found = {0: None, 1: FencedOutError("taken"), 2: StorageWriteError("locked"), 3: None}
    answer = c.SegmentsPurged.of(c.PurgeSegments(3, "", []), found)
    assert answer == c.SegmentsPurged(3, [0, 3], "locked")
    assert c.SegmentsPurged.of(c.PurgeSegments(3, "", []), {1: FencedOutError("taken")}).problem == ""


async def test_a_store_answers_what_it_is_asked_about_itself(peer, data_plane, store):
    (refused,) = await ask(peer, c.AskStore(4, "", b'{"about": "health"}'))
    assert isinstance(refused, c.OperationUnsupported)
    store.answer = BesideStore(data_plane).answer
    (reply,) = await ask(peer, c.AskStore(4, "", b'{"about": "health"}'))
    assert [each["name"] for each in json.loads(reply.answer)] == [
        *("longTermStorage", "container-0", "container-1")
    ]
    (reply,) = await ask(peer, c.AskStore(4, "", b'{"about": "statistics", "container": 1}'))
    assert list(json.loads(reply.answer)["containers"]) == ["1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        *(b"", b"{", b"[]", b"7", b"{}", b'{"about": "secrets"}', b'{"about": "pause"}', b"[" * 4000),
        *(b'{"about": "pause", "paused": 1}', b'{"about": "statistics", "container": "1"}', b" " * 5000),
    ],
)
async def test_what_no_store_is_asked_is_refused_and_changes_nothing(peer, data_plane, store, question):
    store.answer = BesideStore(data_plane).answer
    (reply,) = await ask(peer, c.AskStore(5, "", question))
    assert isinstance(reply, c.ErrorMessage)
    assert "a store is not asked that" in reply.message
    assert not data_plane.optimisers()["paused"]
    assert not peer.closed


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_",
    [
        c.GetSegmentInfos(5, "", ["s/a/0.#epoch.0"] * 1001),
        c.DeleteSegments(5, "", ["s/a/0.#epoch.0"] * 1001),
        c.GetChangedSegments(5, "", b"garbage", 0, 1),
        c.GetChangedSegments(5, "", b"", 1, 1),
        c.GetChangedSegments(5, "", b"", 0, 0),
        c.GetChangedSegments(5, "", b"", 0, 1 << 30),
    ],
)
async def test_what_is_out_of_bounds_is_refused_and_changes_nothing(peer, store, request_):
    (reply,) = await ask(peer, request_)
    assert isinstance(reply, c.ErrorMessage)
    assert (reply.request_id, reply.error_code) == (5, 0)
    assert (await store.segment_info("s/a/0.#epoch.0")).length == 3
    assert not peer.closed


def test_a_part_that_exceeds_an_answer_is_asked_for_in_smaller_ones():
    long = "x" * 1000
    changed = [(f"{long}/{number}", number) for number in range(CHANGED_BYTES_MAX // 1000 + 1)]
    whole = c.ChangedSegments.of(c.GetChangedSegments(1, "", b"", 0, 1), b"m", changed)
    assert (whole.complete, whole.changed) == (False, [])
    parts = [c.ChangedSegments.of(c.GetChangedSegments(1, "", b"", n, 4), b"m", changed) for n in range(4)]
    assert sorted(each for part in parts for each in part.changed) == sorted(changed)


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {EVERYTHING: Permission.READ},
        {stream_claim("s", "a"): Permission.READ_UPDATE},
        {"prn::/scope:s": Permission.READ_UPDATE},
    ],
)
async def test_only_the_token_of_servers_is_accepted(store, claims):
    runtime = system_runtime()
    home = FakeHome(store, authorise=TokenChecker(KEY, runtime.clock, 0).authorise)
    peer = Peer(home)
    now_s = runtime.clock.now_ms() // 1000
    request = c.DeleteSegments(1, issue(KEY, claims, now_s, 60), ["s/a/0.#epoch.0"])
    assert await ask(peer, request) == [c.AuthTokenCheckFailed(1, "", 0)]
    request.delegation_token = issue(KEY, {EVERYTHING: Permission.READ_UPDATE}, now_s, None)
    assert await ask(peer, request) == [c.SegmentsDeleted(1)]
    await home.supervisor.stop()
