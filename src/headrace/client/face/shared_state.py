"""Calls that open a stream of one segment as revisions, or as a state that several processes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headrace.client.config import ReaderConfig
from headrace.client.face.core import ClientCore
from headrace.client.opening import Opening
from headrace.client.revisions.revisioned_stream import RevisionedStream
from headrace.client.revisions.synchronizer import Synchronizer
from headrace.client.scoped_name import named
from headrace.client.segment_address import SegmentAddress
from headrace.client.serializers import Codec, Serializer, find_codec
from headrace.errors import InvalidArgumentError, PreconditionError, StreamSealedError

S = TypeVar("S")


class SharedStateFace(ClientCore):
    """Revisioned streams and synchronizers."""

    @named
    def revisioned(
        self, scope: str, stream: str, config: ReaderConfig | None = None
    ) -> Opening[RevisionedStream]:
        """Open a stream of one segment whose writers agree on its order.

        >>> await client.create_stream("demo/log", segments=1)
        True
        >>> async with client.revisioned("demo/log") as log:
        ...     revision = await log.append(b"first", after=await log.oldest())

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            PreconditionError: the stream has several segments.
        """
        return Opening(self._open_revisioned(scope, stream, config or self.config.reader))

    async def _open_revisioned(self, scope: str, stream: str, config: ReaderConfig) -> RevisionedStream:
        segments = await self._services.segments.current(scope, stream)
        if not segments:
            raise StreamSealedError(f"stream {scope}/{stream} is sealed")
        if len(segments) != 1:
            raise PreconditionError(
                f"{scope}/{stream} has {len(segments)} segments; a stream of revisions has one"
            )
        address = SegmentAddress(scope, stream, segments[0].segment_id)
        return RevisionedStream(address, self._services, self._calls, config)

    @named
    def synchronizer(
        self,
        scope: str,
        stream: str,
        *,
        initial: S,
        apply: Callable[[S, Any], S],
        serializer: Serializer | str = "json",
    ) -> Opening[Synchronizer[S, Any]]:
        """Open a state that several processes share over a stream of one segment.

        >>> await client.create_stream("demo/settings", segments=1)
        True
        >>> def apply(state, update):
        ...     return {**state, **update}
        >>> async with client.synchronizer("demo/settings", initial={}, apply=apply) as settings:
        ...     state = await settings.update(lambda state: {"limit": 7})

        Args:
            scope: of the stream.
            stream: which holds nothing else.
            initial: the state that is written if there is none yet.
            apply: makes the next state of a state and an update, and leaves both as they are.
            serializer: of states and updates.

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            PreconditionError: the stream has several segments.
            DataCorruptionError: the stream has something else.
        """
        codec = find_codec(serializer)
        if codec is None:
            raise InvalidArgumentError("a synchronizer needs a serializer")
        return Opening(self._open_synchronizer(scope, stream, codec, initial, apply))

    async def _open_synchronizer(
        self, scope: str, stream: str, codec: Any, initial: S, apply: Callable[[S, Any], S]
    ) -> Synchronizer[S, Any]:
        opened = await self._open_revisioned(scope, stream, self.config.reader)

        async def begin() -> S:
            return initial

        synchronizer = Synchronizer(opened, self._services, _ValueCodec(codec, opened.address), begin, apply)
        await synchronizer.begin()
        return synchronizer


class _ValueCodec:
    """The serializer of a user, for states and updates."""

    def __init__(self, codec: Codec, address: SegmentAddress) -> None:
        self.encode = codec.encode
        self._codec = codec
        self._address = address

    def decode_state(self, data: bytes) -> Any:
        address = self._address
        return self._codec.decode(data, f"{address.scope}/{address.stream}", address.segment_id, -1)

    decode_update = decode_state
