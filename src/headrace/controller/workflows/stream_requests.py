"""What one may ask of a stream as a whole, through whichever interface: each waits for its
workflow.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.controller.context import ControllerContext
from headrace.controller.streams.stream import Stream, sorted_cut
from headrace.controller.workflows.create_stream import create_stream
from headrace.controller.workflows.delete_stream import delete_stream
from headrace.controller.workflows.seal_stream import seal_stream
from headrace.controller.workflows.transactions import Transactions
from headrace.controller.workflows.truncate_stream import truncate_stream
from headrace.controller.workflows.update_stream import update_stream
from headrace.errors import StreamBusyError
from headrace.model.policies import StreamConfiguration


class StreamRequests:
    """Hands requests to the engine. Raises what the workflows raise, and NoSuchStreamError."""

    def __init__(self, context: ControllerContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions

    async def create(self, scope: str, name: str, config: StreamConfiguration) -> None:
        """See ``create_stream.create_stream``."""
        await create_stream(self._context, scope, name, config)

    async def update(self, scope: str, name: str, config: StreamConfiguration) -> None:
        """See ``update_stream.update_stream``; another active update raises StreamBusyError."""
        stream = await self._complete(scope, name)
        if stream.row.updating is not None and stream.row.updating != config:
            raise StreamBusyError(f"another update of {stream.full_name} is in progress")
        await self._context.engine.request(
            stream, "update", lambda: update_stream(self._context, stream, config)
        )

    async def truncate(self, scope: str, name: str, cut: Mapping[int, int]) -> None:
        """See ``truncate_stream.truncate_stream``; another active truncation raises StreamBusyError."""
        stream = await self._complete(scope, name)
        if stream.row.truncating is not None and stream.row.truncating != sorted_cut(cut):
            raise StreamBusyError(f"another truncation of {stream.full_name} is in progress")
        await self._context.engine.request(
            stream, "truncate", lambda: truncate_stream(self._context, stream, cut)
        )

    async def seal(self, scope: str, name: str) -> None:
        """See ``seal_stream.seal_stream``."""
        stream = await self._complete(scope, name)
        await self._context.engine.request(
            stream, "seal", lambda: seal_stream(self._context, self._transactions, stream)
        )

    async def delete(self, scope: str, name: str) -> None:
        """See ``delete_stream.delete_stream``."""
        stream = await self._context.directory.get(scope, name)
        await self._context.engine.request(stream, "delete", lambda: delete_stream(self._context, stream))

    async def _complete(self, scope: str, name: str) -> Stream:
        """Return a stream that is not being created any more."""
        stream = await self._context.directory.get(scope, name)
        stream.check_readable()
        return stream
