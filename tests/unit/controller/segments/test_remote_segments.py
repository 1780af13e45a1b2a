"""Calls to segment stores that answer what a test says: who is asked again, and what is told of failures."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from headrace.controller.segments.remote.locator import OneStore
from headrace.errors import (
    ConnectionLostError,
    LostReplyError,
    PermissionDeniedError,
    StorageReadRefusedError,
    ThrottledError,
    TokenExpiredError,
    UnreachableError,
    UnsupportedError,
    WrongHostError,
)
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.model.change_marker import Looked, decode_marker, encode_marker
from headrace.model.endpoint import Endpoint
from headrace.security.permission import Permission
from headrace.security.tokens import EVERYTHING, TokenKey, issue
from headrace.wire import commands as c
from headrace.wire.catalogue import INTERNAL_VERSION, VERSION
from headrace.wire.frames import FrameDecoder, encode
from tests.remote_stores import TwoStores, calling, listening

A = "s/a/0.#epoch.0"
CLOSE = object()


class Scripted:
    """A store that answers by a function of the request; CLOSE hangs up, None says nothing."""

    def __init__(self, answer, version=INTERNAL_VERSION):
        self.answer = answer
        self.version = version
        self.asked = []
        self.endpoint = None

    async def serve(self, reader, writer):
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            decoder.feed(data)
            while (command := decoder.next_command()) is not None:
                if isinstance(command, c.Hello):
                    writer.write(encode(c.Hello(self.version, 5)))
                    continue
                if isinstance(command, c.KeepAlive):
                    continue
                self.asked.append(command)
                reply = self.answer(command)
                if reply is CLOSE:
                    writer.transport.abort()
                    return
                if reply is not None:
                    writer.write(encode(reply))
        writer.close()


@asynccontextmanager
async def scripted(answer, version=INTERNAL_VERSION):
    store = Scripted(answer, version)
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
    store.endpoint = Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield store
    finally:
        server.close()


class Told:
    """A locator that believes what it is told."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.owners = []

    def locate(self, segment):
        return self.endpoint

    def moved(self, segment, owner):
        self.owners.append(owner)
        self.endpoint = owner or self.endpoint

    def stores(self):
        return [self.endpoint]


async def test_the_owner_that_an_answer_names_is_asked_next():
    async with (
        listening() as (_, right),
        scripted(lambda request: c.WrongHost(request.request_id, A, str(right))) as wrong,
        calling(Told(wrong.endpoint)) as segments,
    ):
        await segments.create_segment(A)
        assert await segments.append(A, b"abc") == 0
        assert (await segments.segment_info(A)).length == 3
        assert len(wrong.asked) == 1


async def test_many_segments_of_a_store_that_lost_them_are_asked_for_elsewhere():
    def wrong(request):
        return c.WrongHost(request.request_id, "", "")

    async with (
        listening() as (data_plane, right),
        scripted(wrong) as store,
    ):
        names = [f"s/{letter}/0.#epoch.0" for letter in "abcdefgh"]
        for name in names:
            await data_plane.store.create_segment(name)
        divided = TwoStores([right, store.endpoint])
        wrongly = [name for name in names if divided.locate(name) != right]
        assert wrongly

        class Corrected(TwoStores):
            def locate(self, segment):
                return right if segment in self.corrected else super().locate(segment)

            def moved(self, segment, owner):
                self.corrected.add(segment)

        async with calling(Corrected([right, store.endpoint])) as segments:
            found = await segments.segment_infos(names)
            assert all(facts is not None for facts in found)
            assert {name for request in store.asked for name in request.segments} == set(wrongly)


async def test_who_owns_nothing_is_asked_a_bounded_number_of_times():
    async with (
        scripted(lambda request: c.WrongHost(request.request_id, A, "")) as store,
        calling(OneStore(store.endpoint)) as segments,
    ):
        for call in (segments.create_segment(A), segments.append(A, b"x"), segments.segment_infos([A])):
            store.asked.clear()
            with pytest.raises(WrongHostError):
                await call
            assert 2 <= len(store.asked) <= 10


async def test_a_store_that_is_not_there_was_asked_nothing():
    async with scripted(lambda request: None) as store:
        endpoint = store.endpoint
    async with calling(OneStore(endpoint)) as segments:
        for call in (segments.create_segment(A), segments.append(A, b"x"), segments.segment_infos([A])):
            with pytest.raises(UnreachableError):
                await call


async def test_a_store_without_internal_commands_is_sent_none():
    async with (
        scripted(lambda request: CLOSE, version=VERSION) as store,
        calling(OneStore(store.endpoint)) as segments,
    ):
        for call in (
            segments.segment_infos([A]),
            segments.delete_segments([A]),
            segments.changed_segments(b""),
        ):
            with pytest.raises(UnsupportedError):
                await call
        assert store.asked == []


async def test_a_change_whose_answer_is_lost_is_not_sent_twice_and_its_outcome_is_unknown():
    async with (
        scripted(lambda request: CLOSE) as store,
        calling(OneStore(store.endpoint)) as segments,
    ):
        for call in (
            segments.create_segment(A),
            segments.delete_segment(A),
            segments.seal_segment(A),
            segments.update_attribute(A, bytes(16), 1, 2),
            segments.merge_batch(A, []),
            segments.table_update(A, []),
            segments.table_remove(A, []),
        ):
            store.asked.clear()
            with pytest.raises(ConnectionLostError):
                await call
            assert len(store.asked) == 1


async def test_a_question_whose_answer_is_lost_is_asked_again():
    lost = [CLOSE, CLOSE]

    def answer(request):
        return lost.pop() if lost else c.SegmentAttribute(request.request_id, 7)

    async with scripted(answer) as store, calling(OneStore(store.endpoint)) as segments:
        assert await segments.get_attribute(A, bytes(16)) == 7
        assert len(store.asked) == 3


async def test_a_seal_that_happened_is_not_told_as_one_that_did_not():
    def answer(request):
        if isinstance(request, c.SealSegment):
            return c.SegmentSealed(request.request_id, A)
        return c.WrongHost(request.request_id, A, "")

    async with scripted(answer) as store, calling(OneStore(store.endpoint)) as segments:
        with pytest.raises(LostReplyError):
            await segments.seal_segment(A)


async def test_an_append_that_was_stored_before_its_answer_was_lost_is_not_sent_again():
    stored = {}

    def answer(request):
        match request:
            case c.SetupAppend():
                last = stored.get(request.writer_id, -(1 << 63))
                return c.AppendSetup(request.request_id, A, request.writer_id, last)
            case c.AppendBlockEnd():
                stored[request.writer_id] = request.last_event_number
                return CLOSE
            case c.ConditionalBlockEnd():
                stored[request.writer_id] = request.event_number
                return CLOSE

    async with scripted(answer) as store, calling(OneStore(store.endpoint)) as segments:
        assert await segments.append(A, b"x") is None
        assert await segments.append(A, b"x", expected_offset=7) == 7
        sent = [type(each) for each in store.asked if not isinstance(each, c.SetupAppend)]
        assert sent == [c.AppendBlockEnd, c.ConditionalBlockEnd]


async def test_an_append_that_is_never_answered_may_have_happened():
    def answer(request):
        if isinstance(request, c.SetupAppend):
            return c.AppendSetup(request.request_id, A, request.writer_id, -(1 << 63))
        return CLOSE

    async with scripted(answer) as store, calling(OneStore(store.endpoint)) as segments:
        with pytest.raises(ConnectionLostError):
            await segments.append(A, b"x")
        appends = [each for each in store.asked if isinstance(each, c.AppendBlockEnd)]
        assert len({(each.writer_id, each.last_event_number) for each in appends}) == 1


async def test_appends_one_after_the_other_are_those_of_one_writer():
    """A segment remembers every writer."""
    async with listening() as (data_plane, endpoint), calling(OneStore(endpoint)) as segments:
        await segments.create_segment(A)
        before = len((await data_plane.store.segment_info(A)).attributes)
        for _ in range(20):
            await segments.append(A, b"x")
        assert len((await data_plane.store.segment_info(A)).attributes) == before + 1


@pytest.mark.parametrize(
    ("code", "error"), [(1, TokenExpiredError), (0, PermissionDeniedError), (-1, PermissionDeniedError)]
)
async def test_a_refused_token_is_told(code, error):
    async with (
        scripted(lambda request: c.AuthTokenCheckFailed(request.request_id, "", code)) as store,
        calling(OneStore(store.endpoint)) as segments,
    ):
        for call in (segments.segment_info(A), segments.append(A, b"x"), segments.segment_infos([A])):
            with pytest.raises(error):
                await call


async def test_what_long_term_storage_refuses_is_told_to_readers_and_writers_wait():
    async with (
        scripted(lambda request: c.ErrorMessage(request.request_id, A, "the disk", -1)) as store,
        calling(OneStore(store.endpoint)) as segments,
    ):
        with pytest.raises(StorageReadRefusedError, match="the disk"):
            await segments.segment_info(A)
        with pytest.raises(ThrottledError, match="the disk"):
            await segments.append(A, b"x")


async def test_updates_with_an_append_are_refused_before_anything_is_sent():
    async with scripted(lambda request: CLOSE) as store, calling(OneStore(store.endpoint)) as segments:
        with pytest.raises(UnsupportedError):
            await segments.append(A, b"x", [AttributeUpdate(bytes(16), UpdateKind.REPLACE, 1)])
        assert store.asked == []


async def test_a_server_signs_for_itself_and_nobody_else_deletes_many():
    key = TokenKey(b"k" * 64)
    own = issue(key, {EVERYTHING: Permission.READ_UPDATE}, 1_000_000_000, None)
    reader = issue(key, {EVERYTHING: Permission.READ}, 1_000_000_000, None)
    async with (
        listening(token_key=key) as (_, endpoint),
        calling(OneStore(endpoint), lambda _: own) as segments,
        calling(OneStore(endpoint), lambda _: reader) as curious,
    ):
        await segments.create_segment(A)
        await segments.append(A, b"abc")
        marker, changed = await segments.changed_segments(b"")
        assert changed == [(A, 3)]
        assert (await curious.segment_info(A)).length == 3
        for call in (
            curious.segment_infos([A]),
            curious.delete_segments([A]),
            curious.changed_segments(marker),
            curious.append(A, b"x"),
        ):
            with pytest.raises(PermissionDeniedError):
                await call
        await segments.delete_segments([A])


async def test_changes_of_several_stores_are_told_together_and_markers_last():
    async with (
        listening(1) as (_, one),
        listening(1) as (_, two),
        calling(TwoStores([one, two])) as segments,
    ):
        names = [f"s/{letter}/0.#epoch.0" for letter in "abcdefgh"]
        for name in names:
            await segments.create_segment(name)
        marker, changed = await segments.changed_segments(b"")
        assert sorted(changed) == [(name, 0) for name in names]
        await segments.append(names[0], b"abc")
        assert (names[0], 3) in (await segments.changed_segments(marker))[1]


async def test_a_store_that_is_away_hides_no_changes_of_others_and_loses_none_of_its_own():
    """It answers with what has changed since the marker that it is sent."""
    away = []

    def answer(request):
        if away:
            return CLOSE
        looked = decode_marker(request.marker).get(7)
        changed = [(f"since {looked.time_ms if looked else 0}", 1)]
        return c.ChangedSegments(request.request_id, encode_marker({7: Looked(1, 100)}), True, changed)

    async with (
        listening(1) as (_, one),
        scripted(answer) as two,
        calling(TwoStores([one, two.endpoint])) as segments,
    ):
        name = next(
            f"s/{letter}/0.#epoch.0" for letter in "abcdefgh" if sum(f"s/{letter}/0".encode()) % 2 == 0
        )
        await segments.create_segment(name)
        marker, changed = await segments.changed_segments(b"")
        assert sorted(changed) == [(name, 0), ("since 0", 1)]
        away.append(True)
        await segments.append(name, b"abc")
        marker, changed = await segments.changed_segments(marker)
        assert changed == [(name, 3)]
        away.clear()
        _, changed = await segments.changed_segments(marker)
        assert ("since 100", 1) in changed
    async with (
        scripted(lambda request: CLOSE) as one,
        scripted(lambda request: CLOSE) as two,
        calling(TwoStores([one.endpoint, two.endpoint])) as segments,
    ):
        with pytest.raises(UnreachableError, match="no segment store says what has changed"):
            await segments.changed_segments(marker)


async def test_more_changes_than_an_answer_has_are_asked_for_in_parts():
    """The store that is asked says each time that there are too many, up to sixteen parts."""

    def answer(request):
        complete = request.parts >= 16
        changed = [(f"{request.part}", 1)] if complete else []
        return c.ChangedSegments(request.request_id, b"", complete, changed)

    async with scripted(answer) as store, calling(OneStore(store.endpoint)) as segments:
        _, changed = await segments.changed_segments(b"")
        assert sorted(changed) == sorted((f"{part}", 1) for part in range(16))
        assert len(store.asked) == 2 + 16


async def test_a_read_at_the_tail_tells_what_long_term_storage_refuses_and_outlives_lost_connections():
    answers = [lambda request: c.ErrorMessage(request.request_id, A, "the disk", -1)]
    answers += [lambda request: CLOSE] * 3

    def answer(request):
        return answers.pop()(request)

    async with (
        scripted(answer) as store,
        calling(OneStore(store.endpoint)) as segments,
    ):
        with pytest.raises(StorageReadRefusedError, match="the disk"):
            await segments.read(A, 0, 10, wait=True)
        assert len(store.asked) == 4
