"""Requests of the data protocol to a server, many at a time. Works with the code of every release."""

import asyncio
from itertools import count

from headrace.wire import commands as c
from headrace.wire.catalogue import VERSION, VERSION_OLDEST
from headrace.wire.frames import FrameDecoder, encode

IN_FLIGHT = 200
PATIENCE_S = 120


class WireCalls:
    """One connection; each request gets an id of its own, and answers are told apart by it."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer
        self._decoder = FrameDecoder.for_client()
        self._ids = count(1)

    @classmethod
    async def open(cls, server):
        host, _, port = server.addresses["segmentstore"].rpartition(":")
        calls = cls(*await asyncio.open_connection(host, int(port)))
        calls._writer.write(encode(c.Hello(VERSION, VERSION_OLDEST)))
        assert isinstance(await calls._receive(), c.Hello)
        return calls

    async def ask(self, request):
        return (await self.ask_all([request]))[0]

    async def ask_all(self, requests):
        """Return the replies in the order of the requests, of which a number is in flight at a time."""
        replies = []
        for first in range(0, len(requests), IN_FLIGHT):
            replies += await self._ask_some(requests[first : first + IN_FLIGHT])
        return replies

    async def _ask_some(self, requests):
        replies = {}
        for request in requests:
            request.request_id = next(self._ids)
            replies[request.request_id] = None
            self._writer.write(encode(request))
        missing = len(replies)
        while missing:
            reply = await self._receive()
            assert replies[reply.request_id] is None, reply
            replies[reply.request_id] = reply
            missing -= 1
        return list(replies.values())

    async def _receive(self):
        async with asyncio.timeout(PATIENCE_S):
            while (reply := self._decoder.next_command()) is None:
                data = await self._reader.read(1 << 16)
                assert data, "the server closed the connection"
                self._decoder.feed(data)
        if isinstance(reply, c.SegmentRead):
            reply.data = bytes(reply.data)  # a view of what the next bytes replace
        return reply

    async def append(self, segment, numbers, data):
        """Append ``data`` once by each writer, whose event number becomes the given one.

        Returns:
            By writer the event number that it had before.
        """
        setups = await self.ask_all([c.SetupAppend(0, writer, segment, "") for writer in numbers])
        assert all(isinstance(each, c.AppendSetup) for each in setups), setups[0]
        appends = [c.AppendBlockEnd(writer, len(data), data, 1, number) for writer, number in numbers.items()]
        acknowledged = await self.ask_all(appends)
        for each, (writer, number), setup in zip(acknowledged, numbers.items(), setups, strict=True):
            assert isinstance(each, c.DataAppended), each
            assert (each.writer_id, each.event_number) == (writer, number)
            assert each.previous_event_number == setup.last_event_number
        return {each.writer_id: each.last_event_number for each in setups}

    async def set_attributes(self, segment, changes):
        """Change attributes; ``changes``: by id the expected and the new value. Return who was accepted."""
        replies = await self.ask_all(
            [
                c.UpdateSegmentAttribute(0, segment, each, new, expected, "")
                for each, (expected, new) in changes.items()
            ]
        )
        assert all(isinstance(each, c.SegmentAttributeUpdated) for each in replies), replies
        return [each.success for each in replies]

    def drop(self):
        self._writer.transport.abort()
