"""Batches with numbers: calls for programs that write the same batch again after they were killed."""

from __future__ import annotations

from headrace.client.config import WriterConfig
from headrace.client.face.events import EventFace
from headrace.client.opening import Opening
from headrace.client.scoped_name import named
from headrace.client.serializers import Serializer
from headrace.client.writer.numbered_batch import Batch, check_identity


class BatchFace(EventFace):
    """Batches of applications."""

    @named
    def batch(
        self,
        scope: str,
        stream: str,
        *,
        app: str,
        number: int,
        wait: bool = False,
        lease_ms: int | None = None,
        config: WriterConfig | None = None,
        serializer: Serializer | str | None = None,
    ) -> Opening[Batch]:
        """Begin a batch whose events become visible together and once, however often it is given.

        >>> async with client.batch("demo/orders", app="etl", number=17, serializer="json") as batch:
        ...     ack = batch.write({"order": 1}, "customer-7")

        The end of the block commits it, an exception that leaves the block drops it. If the application has
        committed this number or a later one, ``batch.is_new`` is False and its events are left out.

        Args:
            scope: of the stream.
            stream: its name.
            app: the application, or the part of it that numbers its batches by itself. The stream remembers
                10,000 of them, each for 30 days after its last batch.
            number: of the batch; numbers rise, and the same batch has the same one.
            wait: return from the commit only when readers see the events, and not right before that.
            lease_ms: how long the batch survives its process, at least 10 s.
            config: instead of the client's.
            serializer: what turns events into bytes; see :meth:`event_writer`.

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
            InvalidArgumentError: the name or the number is none.
        """
        check_identity(app, number)
        writer = self.txn_writer(
            scope, stream, writer_id=app, lease_ms=lease_ms, config=config, serializer=serializer
        )
        return Opening(Batch.open(writer, app, number, wait=wait))

    @named
    async def last_batch(self, scope: str, stream: str, *, app: str) -> int | None:
        """Return the number of the last batch of an application; None: it has none, or none for 30 days."""
        mark = await self.transactions.sink_watermark(scope, stream, app)
        return None if mark is None else mark.batch
