"""Writes bytes into objects, behind the committed ones of a segment, so that a commit can store them.

Knows which chunks may not grow: those of older container epochs, those whose objects may be longer than is
committed because a write to them failed, and those whose objects have lost bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from headrace.errors import ChunkOffsetError, NoSuchChunkError, RequestError, StorageFullError
from headrace.runtime.entropy import Entropy
from headrace.storage.chunks.append_plan import AppendPiece, apply_append, plan_append, slice_buffers
from headrace.storage.chunks.checksums import extend_checksums
from headrace.storage.chunks.chunk_io import ChunkIO
from headrace.storage.chunks.chunk_names import OWNER_BYTES, RANDOM_BYTES, chunk_name
from headrace.storage.chunks.garbage import GarbageQueue
from headrace.storage.chunks.incarnation import Incarnation
from headrace.storage.chunks.segment_layout import Rows, SegmentLayout

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Written:
    """What is in objects, to be committed by ``rows``: the segment looks like ``after`` then."""

    after: SegmentLayout
    rows: Rows
    new_chunks: Sequence[str] = ()
    """Objects that were made for it."""


class ChunkWriter:
    """Writes for one container epoch. One write of a segment at a time; the caller serialises and commits."""

    def __init__(
        self,
        io: ChunkIO,
        garbage: GarbageQueue,
        incarnation: Incarnation,
        entropy: Entropy,
        *,
        container: int,
        container_epoch: int,
        block_bytes: int,
    ) -> None:
        self._io = io
        self._garbage = garbage
        self._incarnation = incarnation
        self._entropy = entropy
        self._container = container
        self._container_epoch = container_epoch
        self._block_bytes = block_bytes
        self._owner = b""
        self._closed: set[str] = set()
        """Last chunks of their segments that get no more bytes although they are of this container epoch."""
        self.failures = 0
        self.chunks_created = 0

    @property
    def owner(self) -> str:
        """What the names of all objects made here have in common; empty if there are none yet."""
        return self._owner.hex()

    def close_last(self, layout: SegmentLayout) -> None:
        """The outcome of a commit is unknown: the last chunk's object may be longer than committed."""
        if layout.last is not None:
            self._closed.add(layout.last.name)

    def discard(self, written: Written) -> None:
        """What was written was not committed, and will not be: its new objects are orphans."""
        self._garbage.orphans.extend(written.new_chunks)

    def forget(self, chunks: Iterable[str]) -> None:
        """The chunks are gone."""
        self._closed.difference_update(chunks)

    async def write(self, layout: SegmentLayout, views: list[memoryview], length: int) -> Written:
        """Write the bytes behind the committed ones; return the layout and rows that would commit them.

        On failure nothing is committed; chunks that may have more than is committed get no more bytes,
        objects that may be orphans are noted for deletion.

        A last chunk whose object is longer, shorter or gone is no failure: the bytes go into a new one. What
        is lost was lost before; these bytes are not, and have to be stored all the same, or the log and the
        cache would fill up until nothing in the container can be appended to. The next owner would do the
        same, since it never looks at older chunks.
        """
        if length == 0:
            after = replace(layout, owner_epoch=self._container_epoch)
            rows: Rows = {}
            after.put_segment_row(rows)
            return Written(after, rows)
        await self._incarnation.commit()
        pieces = plan_append(
            layout,
            length,
            extends_last=self._extends_last(layout),
            name_chunk=partial(self._name_chunk, layout.segment),
        )
        touched: list[AppendPiece] = []
        try:
            for piece in pieces:
                part = views if len(pieces) == 1 else slice_buffers(views, piece.begin, piece.length)
                touched.append(piece)
                add_checksums = partial(self._add_checksums, layout, piece, part)
                await self._write_piece(piece, part, touched, add_checksums)
        except BaseException as error:
            self.failures += 1
            self._closed.update(piece.chunk for piece in touched if not piece.is_new)
            self._garbage.orphans.extend(piece.chunk for piece in touched if piece.is_new)
            if not isinstance(error, ChunkOffsetError | NoSuchChunkError) or touched[-1].is_new:
                raise
            damage = _describe_damage(error)
        else:
            self.chunks_created += sum(piece.is_new for piece in pieces)
            if layout.last is not None and pieces[-1].is_new:
                self._closed.discard(layout.last.name)
            after, rows = apply_append(
                layout, pieces, container_epoch=self._container_epoch, block_bytes=self._block_bytes
            )
            return Written(after, rows, [piece.chunk for piece in pieces if piece.is_new])
        # The last chunk's object is not what was committed. It is closed now, so this comes here once only.
        if damage:
            _logger.error("damaged data: %s; %r goes on in a new chunk", damage, layout.segment)
        return await self.write(layout, views, length)

    async def copy(self, segment: str, offset: int, views: Sequence[memoryview], io: ChunkIO) -> AppendPiece:
        """Make an object, by ``io``, of bytes of a segment from ``offset`` on that others have now; no row
        names it.

        Raises as :meth:`write`; the object is an orphan then.
        """
        await self._incarnation.commit()
        length = sum(map(len, views))
        piece = AppendPiece(self._name_chunk(segment, offset), 0, 0, length, is_new=True)
        try:
            await io.write(piece, views, partial(self._checksum_copy, piece, views))
        except BaseException as error:
            self.failures += 1
            if not isinstance(error, RequestError | StorageFullError):
                self.discard_copies([piece])
            raise
        self.chunks_created += 1
        return piece

    def _checksum_copy(self, piece: AppendPiece, views: Sequence[memoryview]) -> None:
        """In the thread that writes it, as :meth:`_add_checksums`."""
        piece.full_groups, piece.checksums = extend_checksums(piece.checksums, 0, self._block_bytes, views)

    def discard_copies(self, copies: Iterable[AppendPiece]) -> None:
        """No commit will name these objects."""
        self._garbage.orphans.extend(piece.chunk for piece in copies)

    async def _write_piece(
        self,
        piece: AppendPiece,
        part: Sequence[memoryview],
        touched: list[AppendPiece],
        add_checksums: Callable[[], None],
    ) -> None:
        """Write one piece; a write that certainly did not happen is removed from ``touched``."""
        try:
            await self._io.write(piece, part, add_checksums)
        except (ChunkOffsetError, NoSuchChunkError):
            raise  # nothing was written, and nothing ever may be
        except (RequestError, StorageFullError):
            touched.remove(piece)
            raise

    def _extends_last(self, layout: SegmentLayout) -> bool:
        last = layout.last
        if last is None or not self._io.supports_append:
            return False
        return last.epoch == self._container_epoch and last.name not in self._closed

    def _add_checksums(self, layout: SegmentLayout, piece: AppendPiece, part: Sequence[memoryview]) -> None:
        """In the thread that writes the piece: the loop looks at it only after that."""
        if piece.is_new:
            block_bytes, tail = self._block_bytes, piece.checksums
        else:
            last = layout.last
            assert last is not None
            block_bytes, tail = last.block_bytes, last.checksums
        piece.full_groups, piece.checksums = extend_checksums(tail, piece.chunk_offset, block_bytes, part)

    def _name_chunk(self, segment: str, offset: int) -> str:
        random = self._entropy.token(RANDOM_BYTES)
        self._owner = self._owner or random[:OWNER_BYTES]
        random = self._owner + random[OWNER_BYTES:]
        return chunk_name(
            self._container, segment, self._container_epoch, offset, self._incarnation.name, random
        )


def _describe_damage(error: ChunkOffsetError | NoSuchChunkError) -> str:
    """Say what is lost of a chunk that refused an append; nothing if it only is too long."""
    if isinstance(error, ChunkOffsetError) and error.actual > error.offset:
        return ""
    return str(error)
