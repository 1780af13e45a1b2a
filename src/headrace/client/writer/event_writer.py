"""Writes events to a stream, exactly once per event and in order per key, while the stream scales beneath it.

When a segment is sealed, its successors take its place in the map at once, and everything it did not store
follows in its old order before any new event of the same keys. Other segments are not disturbed: the keys
of a sealed segment's siblings keep their segments until those report their own seal, so no append is needed
to find that out early.

Source: protocol, "Sealed segment: successor procedure".
"""

from __future__ import annotations

import asyncio

from headrace.client.connections.reconnect_policy import Reconnects
from headrace.client.writer.rerouting import divide_block
from headrace.client.writer.routed_writer import RoutedWriter
from headrace.client.writer.segment_map import Successor
from headrace.client.writer.segment_output import SegmentOutput
from headrace.errors import ClosedError, HeadraceError, RequestError, StreamSealedError


class EventWriter(RoutedWriter):
    """Made by :meth:`Client.event_writer`. One writer may be shared by all tasks of a loop."""

    def on_segment_ended(self, output: SegmentOutput) -> None:
        """Find the successors of the segment in the background."""
        name = f"follow {self.scope}/{self.stream}/{output.address.segment_id}"
        try:
            self._services.supervisor.spawn(name, self._follow(output))
        except ClosedError as error:
            self._drop(output, error)

    async def _follow(self, output: SegmentOutput) -> None:
        error: HeadraceError = StreamSealedError(f"stream {self.scope}/{self.stream} is sealed")
        try:
            successors = await self._find_successors(output.address.segment_id)
            if successors:
                if self._error is None:
                    self._replace(output, successors)
                    return
                error = self._error
        except HeadraceError as failure:
            error = failure
        except asyncio.CancelledError:
            self._drop(output, ClosedError("the client was closed"))
            raise
        self._drop(output, error)

    async def _find_successors(self, segment_id: int) -> list[Successor]:
        """Ask the controller, as long as it takes a writer to give up."""
        loop = asyncio.get_running_loop()
        reconnects = Reconnects(self._config.reconnect)
        while True:
            try:
                return await self._services.segments.successors(self.scope, self.stream, segment_id)
            except RequestError:
                raise
            except HeadraceError:
                delay = reconnects.on_failure(loop.time(), self._services.entropy.random())
                if delay is None:
                    raise
            await asyncio.sleep(delay)

    def _replace(self, output: SegmentOutput, successors: list[Successor]) -> None:
        """Redirect keys and move what was not stored, in one step of the loop: nothing gets in between."""
        segment_id = output.address.segment_id
        self._map.replace(segment_id, successors)
        del self._outputs[segment_id]
        self._remember_route()
        for block in output.take_blocks():
            for target, part in divide_block(block, self._map, self._spread):
                self._output(target).add_block(part)
