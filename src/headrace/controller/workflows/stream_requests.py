"""What one may ask of a stream as a whole, through whichever interface.

A request that is accepted is in the stream's row before anything else is done: whatever happens to this
controller, it is carried out by the owner of the stream's bucket. The caller waits until the row says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.controller.context import ControllerContext
from headrace.controller.events.event import check_not_requests
from headrace.controller.store.rows.stream_row import StreamRow, StreamState
from headrace.controller.streams.cuts import sorted_cut, with_beginnings
from headrace.controller.streams.stream import Stream, Transition
from headrace.controller.workflows import intents
from headrace.controller.workflows.create_stream import create_stream
from headrace.controller.workflows.truncate_stream import check_truncation
from headrace.errors import NoSuchStreamError, StreamBusyError, StreamNotSealedError, StreamSealedError
from headrace.model.policies import StreamConfiguration
from headrace.model.records import check_reserved
from headrace.model.stream_cut import COMPLETED


class StreamRequests:
    """Every call but ``create`` raises NoSuchStreamError, StreamBusyError while the stream is being created,
    InvalidArgumentError for the stream of requests, ThrottledError if too many calls wait for the stream, and
    DeadlineExceededError if it takes too long: it goes on.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def create(self, scope: str, name: str, config: StreamConfiguration) -> None:
        """See ``create_stream.create_stream``."""
        await create_stream(self._context, scope, name, config)

    async def update(self, scope: str, name: str, config: StreamConfiguration) -> None:
        """Replace the configuration; nothing happens if it is the same.

        Raises:
            StreamSealedError: the stream is sealed, or was before the update could begin.
            StreamBusyError: another update waits or runs.
            InvalidArgumentError: it adds or removes a reserved tag.
        """
        stream = await self._complete(scope, name)
        check_reserved(f"{scope}/{name}", stream.row.config.tags, config.tags)
        await self._accept(stream, intents.accept_update(config, wait=self._is_busy(stream)))
        await self._wait(stream, "update", lambda row: intents.update_is_over(row, config))

    async def truncate(self, scope: str, name: str, cut: Mapping[int, int]) -> None:
        """Truncate the stream at ``cut``; nothing happens if it begins there already.

        Raises:
            StreamSealedError: the stream is sealed, or was before the truncation could begin.
            StreamBusyError: another truncation waits or runs.
            InvalidArgumentError: see ``check_truncation``. Nothing was changed.
        """
        stream = await self._complete(scope, name)
        cut = await _with_real_offsets(stream, cut)
        wanted = sorted_cut(cut)
        while True:
            head = stream.row.truncation
            # What needs no look at segments is refused first; the row may be another one after the look.
            intents.accept_truncate(wanted, head, wait=True)(stream.row)
            if wanted not in {head, stream.row.truncating, stream.row.wants.truncate}:
                await check_truncation(self._context, stream, cut, head)
            accept = intents.accept_truncate(wanted, head, wait=self._is_busy(stream))
            row = await self._accept(stream, accept)
            if row.truncation == head or wanted in {row.truncation, row.truncating, row.wants.truncate}:
                break
        await self._wait(stream, "truncation", lambda row: intents.truncation_is_over(row, wanted))

    async def truncate_any(self, scope: str, name: str, cut: Mapping[int, int]) -> None:
        """Truncate the stream at ``cut``, also if it is sealed, or about to be. A cut without segments is the
        end of a sealed stream.

        Raises:
            StreamBusyError: another truncation waits or runs.
            InvalidArgumentError: see ``check_truncation``. Nothing was changed.
        """
        try:
            await self.truncate(scope, name, cut)
        except StreamSealedError:
            stream = await self._complete(scope, name)
            await self._wait(stream, "seal", intents.seal_is_over)
            await self._truncate_sealed(stream, cut)

    async def seal(self, scope: str, name: str) -> None:
        """Seal the stream; one that is sealed stays as it is."""
        await self._seal(await self._complete(scope, name))

    async def delete(self, scope: str, name: str) -> None:
        """Delete a stream that is sealed, is being sealed, or was never complete.

        Raises:
            StreamNotSealedError: it is none of these; nothing changed.
        """
        check_not_requests(scope, name)
        await self._delete(await self._context.directory.get(scope, name))

    async def delete_whole(self, stream: Stream) -> None:
        """Seal and delete a stream as it was read, if it still exists: not a later one of its name."""
        try:
            if stream.row.state is not StreamState.CREATING:
                await self._seal(stream)
            await self._delete(stream)
        except NoSuchStreamError:
            return
        except StreamNotSealedError as error:
            raise StreamBusyError(str(error)) from None

    # ---------------------------------------------------------------------------------- inside

    async def _truncate_sealed(self, stream: Stream, cut: Mapping[int, int]) -> None:
        if cut:
            cut = await _with_real_offsets(stream, cut)
        else:
            cut = await stream.sealed_lengths(stream.row.epoch.segment_ids())
        wanted = sorted_cut(cut)
        while True:
            head = stream.row.truncation
            if wanted not in {head, stream.row.truncating}:
                await check_truncation(self._context, stream, cut, head)
            row = await self._accept(stream, intents.accept_sealed_truncate(wanted, head))
            if wanted in {row.truncation, row.truncating}:
                break
        await self._wait(stream, "truncation", lambda row: row.truncating != wanted)

    async def _seal(self, stream: Stream) -> None:
        await self._accept(stream, intents.accept_seal(wait=self._is_busy(stream)))
        try:
            await self._wait(stream, "seal", intents.seal_is_over)
        except NoSuchStreamError:
            return  # it was sealed, and deleted at once

    async def _delete(self, stream: Stream) -> None:
        await self._accept(stream, intents.accept_delete)
        try:
            await self._wait(stream, "deletion", lambda _: False)
        except NoSuchStreamError:
            return

    async def _complete(self, scope: str, name: str) -> Stream:
        """Return a stream that is not being created any more."""
        check_not_requests(scope, name)
        stream = await self._context.directory.get(scope, name)
        stream.check_readable()
        return stream

    def _is_busy(self, stream: Stream) -> bool:
        """Whether work of the stream alternates here already: what begins at once would overtake it."""
        return self._context.engine.is_busy(stream)

    async def _accept(self, stream: Stream, accept: Transition) -> StreamRow:
        try:
            return await stream.update(accept)
        except StreamBusyError as error:
            raise StreamBusyError(f"stream {stream.full_name}: {error}") from None

    async def _wait(self, stream: Stream, what: str, is_over: Callable[[StreamRow], bool]) -> None:
        if is_over(stream.row):
            return
        self._context.wake(stream)
        await self._context.engine.wait(stream, what, is_over)


async def _with_real_offsets(stream: Stream, cut: Mapping[int, int]) -> Mapping[int, int]:
    """Return the same position without segments that were not reached yet."""
    return with_beginnings(await stream.cuts().place(cut)) if COMPLETED in cut.values() else cut
