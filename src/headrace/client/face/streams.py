"""Calls about scopes and streams."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import suppress

from headrace.client.control.streams import StreamInfo
from headrace.client.face.core import ClientCore
from headrace.client.scoped_name import named
from headrace.client.segment_map import SegmentRange
from headrace.client.stream_options import Retention, asked_of, configuration_of, parts_said
from headrace.errors import (
    AccessDeniedError,
    InvalidArgumentError,
    NoSuchScopeError,
    NoSuchStreamError,
    StreamExistsError,
)
from headrace.model.key_space import KeyRange
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.model.policy_words import difference_text
from headrace.model.records import check_reserved
from headrace.model.stream_cut import StreamCut


class StreamFace(ClientCore):
    """Scopes and streams."""

    async def create_scope(self, scope: str) -> bool:
        """Create a scope; False if it exists already."""
        return await self._streams.create_scope(scope)

    async def delete_scope(self, scope: str, *, recursive: bool = False) -> bool:
        """Delete a scope (with everything in it, if ``recursive``); False if there is none.

        Raises:
            ScopeNotEmptyError: it holds streams and ``recursive`` is not set.
        """
        return await self._streams.delete_scope(scope, recursive=recursive)

    async def scope_exists(self, scope: str) -> bool:
        """Tell whether the scope exists."""
        return await self._streams.scope_exists(scope)

    def list_scopes(self) -> AsyncIterator[str]:
        """Iterate over every scope, ``_system`` included."""
        return self._streams.list_scopes()

    @named
    async def create_stream(
        self,
        scope: str,
        stream: str,
        configuration: StreamConfiguration | None = None,
        *,
        segments: int | None = None,
        tags: Iterable[str] | None = None,
        retention: Retention | None = None,
        scaling: ScalingPolicy | None = None,
        records: bool | None = None,
        exist_ok: bool = True,
    ) -> bool:
        """Create a stream, by default with one segment and without retention; False if it exists already.

        One that exists stays as it is; if that is not what is asked for here, a ``UserWarning`` says both.

        >>> await client.create_scope("demo")
        True
        >>> await client.create_stream("demo/orders", segments=3, tags=["shop"], retention="7 days")
        True

        Args:
            scope: where; it has to exist.
            stream: its name.
            configuration: everything at once, instead of the keywords.
            segments: how many there are, from the beginning to the end.
            tags: for :meth:`list_streams`.
            retention: what is older, or more, is dropped: a ``timedelta``, a text such as ``"7 days"`` or
                ``"10 GiB"``, or a :class:`RetentionPolicy`.
            scaling: how segments follow the load, in place of ``segments``.
            records: whether its events have a time, a key and headers, for its life; see
                :meth:`EventWriter.write`.
            exist_ok: whether it may exist already.

        Raises:
            NoSuchScopeError: the scope does not exist.
            StreamExistsError: the stream exists, and ``exist_ok`` is False.
            InvalidArgumentError: a name or a number cannot be, or something is said twice.
        """
        wanted = configuration_of(
            configuration,
            segments=segments,
            tags=tags,
            retention=retention,
            scaling=scaling,
            records=records,
        )
        said = parts_said(configuration, segments, tags, retention, scaling, records)
        created, difference = await self._create_stream(scope, stream, wanted, said, exist_ok=exist_ok)
        if difference:
            warnings.warn(difference, stacklevel=3)
        return created

    async def _create_stream(
        self, scope: str, stream: str, wanted: StreamConfiguration, said: Collection[str], *, exist_ok: bool
    ) -> tuple[bool, str]:
        """Create a stream; return whether it is new, and how one that exists differs in the parts that were
        ``said``: the caller warns, on the thread of the user.
        """
        try:
            created = await self._streams.create_stream(scope, stream, wanted)
        except NoSuchScopeError:
            raise NoSuchScopeError(
                f"scope {scope!r} does not exist: create_scope({scope!r}) creates it"
            ) from None
        if created:
            return True, ""
        if not exist_ok:
            raise StreamExistsError(f"stream {scope}/{stream} exists already")
        with suppress(NoSuchStreamError, AccessDeniedError):  # deleted meanwhile; or it may not be looked at
            present = await self._streams.stream_configuration(scope, stream)
            difference = difference_text(f"{scope}/{stream}", asked_of(wanted, said, present), present)
            return False, difference and f"{difference}; update_stream changes it"
        return False, ""

    @named
    async def update_stream(
        self,
        scope: str,
        stream: str,
        configuration: StreamConfiguration | None = None,
        *,
        segments: int | None = None,
        tags: Iterable[str] | None = None,
        retention: Retention | None = None,
        scaling: ScalingPolicy | None = None,
    ) -> None:
        """Replace the whole configuration of a stream, or what keywords name of it.

        >>> await client.update_stream("demo/orders", retention="10 GiB")

        The keywords are those of :meth:`create_stream`. ``segments`` is the number to have from now on, which
        :meth:`scale_stream` brings about.

        Raises:
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
            InvalidArgumentError: a number cannot be, or something is said twice, or nothing; or it would
                change whether the stream has records.
        """
        if not parts_said(configuration, segments, tags, retention, scaling):
            raise InvalidArgumentError("nothing to change: give a configuration, or what of it changes")
        present = await self._streams.stream_configuration(scope, stream)
        wanted = configuration_of(
            configuration,
            segments=segments,
            tags=tags,
            retention=retention,
            scaling=scaling,
            present=present,
        )
        check_reserved(f"{scope}/{stream}", present.tags, wanted.tags)
        await self._streams.update_stream(scope, stream, wanted)

    @named
    async def stream_configuration(self, scope: str, stream: str) -> StreamConfiguration:
        """Return the configuration of a stream. Raises NoSuchStreamError."""
        return await self._streams.stream_configuration(scope, stream)

    @named
    async def stream_exists(self, scope: str, stream: str) -> bool:
        """Tell whether the stream exists."""
        return await self._streams.stream_exists(scope, stream)

    def list_streams(
        self, scope: str, *, tag: str | None = None, internal: bool = False
    ) -> AsyncIterator[str]:
        """Iterate over the streams of a scope, with ``tag`` if given; ``internal`` ones only if asked for."""
        return self._streams.list_streams(scope, tag=tag, internal=internal)

    @named
    async def stream_info(self, scope: str, stream: str) -> StreamInfo:
        """Return configuration, head and tail of a stream. Raises NoSuchStreamError."""
        configuration = await self._streams.stream_configuration(scope, stream)
        head = await self._cuts.head(scope, stream)
        tail = await self._cuts.tail(scope, stream)
        return StreamInfo(scope, stream, configuration, head, tail, not tail.offsets)

    @named
    async def scale_stream(
        self,
        scope: str,
        stream: str,
        sealed: Sequence[int],
        new_ranges: Iterable[KeyRange],
        *,
        wait: bool = True,
    ) -> list[SegmentRange]:
        """Seal segments and continue them with new ones that own the same keys; see
        :meth:`Streams.scale_stream`.
        """
        made = await self._streams.scale_stream(scope, stream, sealed, new_ranges, wait=wait)
        return [SegmentRange(*each) for each in made]

    async def truncate_stream(self, cut: StreamCut, *, any_offset: bool = False) -> None:
        """Drop everything in front of ``cut``, also of a sealed stream.

        Args:
            cut: where the stream begins then; the tail of a sealed stream is its end.
            any_offset: whether a place is not looked at: for plain bytes that happen to look like events.

        Raises:
            NoSuchStreamError: there is no such stream.
            UnsupportedError: it is sealed, and the controller is not one of ours.
            InvalidArgumentError: the stream never had a segment of the cut, or an offset is behind the tail
                or inside an event, so that no reader could begin there.
        """
        if not isinstance(cut, StreamCut):
            raise InvalidArgumentError(f"a stream is truncated to a StreamCut, not to {cut!r:.100}")
        if not any_offset:
            await self._cuts.check_truncation(cut)
        await self._streams.truncate_stream(cut)

    @named
    async def seal_stream(self, scope: str, stream: str) -> None:
        """Allow no more writes to a stream. Raises NoSuchStreamError."""
        await self._streams.seal_stream(scope, stream)

    @named
    async def delete_stream(self, scope: str, stream: str) -> bool:
        """Remove a sealed stream with all its data; False if there is none. Raises StreamNotSealedError."""
        return await self._streams.delete_stream(scope, stream)
