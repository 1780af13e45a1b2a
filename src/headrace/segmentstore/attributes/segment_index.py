"""The B+Tree of one segment in long-term storage: fetches the pages its plans need, writes what they make.

An update is one durable write: pages, then their footer. The rows of long-term storage that name it are in
the container's log, so a former owner cannot commit one, and the length of the stored segment says where the
newest footer ends: behind a torn write there is nothing.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from headrace.btree.compaction import CompactionPolicy
from headrace.btree.footer_format import FOOTER_BYTES, TreeRoot, decode_footer, empty_root
from headrace.btree.lookup import Entries, lookup, read_range
from headrace.btree.page_format import Buffer, Fetch, PageRef, is_index_page, verify_page
from headrace.btree.update import Note, TreeWrite, update
from headrace.errors import (
    CorruptionError,
    DataCorruptionError,
    HeadraceError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentTruncatedError,
)
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.storage.chunks.segment_info import StoredSegmentInfo

_logger = logging.getLogger(__name__)

T = TypeVar("T")

Judge = Callable[[CorruptionError], Awaitable[BaseException]]
"""Returns the error to raise for one that looks like damage: to a former owner much does."""

_ATTEMPTS: Final = 10
"""How often a read begins anew because updates have dropped its pages meanwhile."""

_READS_AT_ONCE: Final = 16
"""Pages of one call that are read at the same time."""


class IndexStorage(Protocol):
    """What an index needs of long-term storage."""

    async def info(self, segment: str) -> StoredSegmentInfo | None: ...

    async def read_stored(self, segment: str, offset: int, length: int) -> memoryview: ...

    async def write(
        self,
        segment: str,
        offset: int,
        buffers: Sequence[Buffer],
        *,
        create: bool = False,
        rollover_bytes: int = 0,
    ) -> int: ...

    async def truncate(self, segment: str, offset: int) -> None: ...

    async def delete(self, segment: str) -> None: ...


async def _believe(error: CorruptionError) -> BaseException:
    return error


class SegmentIndex:
    """The index of one segment. Used on the container's loop. One update at a time; reads at any time."""

    def __init__(
        self,
        name: str,
        key_bytes: int,
        storage: Callable[[], IndexStorage],
        pages: PageCache,
        config: AttributesConfig,
        judge: Judge = _believe,
    ) -> None:
        """``name``: of its segment in storage. ``storage`` raises ContainerOfflineError before it starts."""
        self.key_bytes = key_bytes
        self.root: TreeRoot | None = None
        """None before :meth:`open`, and after a write whose outcome the next :meth:`open` finds out."""
        self._name = name
        self._storage = storage
        self._pages = pages
        self._config = config
        self._judge = judge
        self._policy = CompactionPolicy(factor=config.space_factor)
        self._tree = pages.new_tree()
        self._updating = asyncio.Lock()
        self._reading: dict[int, asyncio.Future[Buffer]] = {}
        self._truncated = 0
        self._closed = False
        self.pages_read = 0
        self.bytes_written = 0

    @property
    def is_busy(self) -> bool:
        """Whether an update is in flight."""
        return self._updating.locked()

    @property
    def keys_at_once(self) -> int:
        """How many keys one write takes."""
        return self._config.update_keys_max

    # -------------------------------------------------------------------------------------- reading

    async def open(self) -> TreeRoot:
        """Return the newest root, read from storage if it is not known.

        Raises:
            DataCorruptionError: the footer is damaged.
            StorageReadError: storage did not answer; retry.
        """
        while (root := self.root) is None:
            info = await self._storage().info(self._name)
            end = 0 if info is None else info.length
            try:
                root = await self._read_root(end) if end else empty_root(self.key_bytes)
            except (SegmentTruncatedError, NoSuchSegmentError, DataCorruptionError) as error:
                now = await self._storage().info(self._name)
                if self.root is None and now == info:  # it should be there
                    raise await self._report(error) from error
                continue  # an update has dropped it meanwhile
            now = await self._storage().info(self._name)
            if self.root is None and end == (0 if now is None else now.length):
                self.root = root
        return root

    async def _read_root(self, end: int) -> TreeRoot:
        root = decode_footer(
            await self._storage().read_stored(self._name, end - FOOTER_BYTES, FOOTER_BYTES), end
        )
        if root.key_bytes != self.key_bytes:
            raise DataCorruptionError(
                f"the index {self._name!r} has keys of {root.key_bytes} bytes, not {self.key_bytes}"
            )
        return root

    def lookup_nowait(self, keys: bytes) -> array[int] | None:
        """Return what :meth:`lookup` does, or None if that takes reading."""
        root = self.root
        if root is None:
            return None
        plan = lookup(root, keys)
        try:
            refs = next(plan)
            while True:
                pages = self._pages.find_all(self._tree, refs)
                if pages is None:
                    plan.close()
                    return None
                refs = plan.send(pages)
        except StopIteration as stop:
            found: array[int] = stop.value
            return found

    async def lookup(self, keys: bytes) -> array[int]:
        """Return the value of each key, in their order; ABSENT for one that is not there.

        Args:
            keys: one after another, of ``key_bytes`` each.

        Raises:
            DataCorruptionError: a page is damaged or missing.
            StorageReadError: storage did not answer; retry.
        """
        return await self._read(lambda root: lookup(root, keys))

    async def read_range(self, first: bytes, last: bytes, count_max: int) -> Entries:
        """Return up to ``count_max`` entries from ``first`` to ``last``, both included, in order.

        Raises as :meth:`lookup`.
        """
        return await self._read(lambda root: read_range(root, first, last, count_max))

    async def _read(self, plan: Callable[[TreeRoot], Fetch[T]]) -> T:
        for _ in range(_ATTEMPTS):
            root = await self.open()
            try:
                return await self._drive(plan(root))
            except (SegmentTruncatedError, NoSuchSegmentError, DataCorruptionError) as error:
                if self.root is root:  # the page should be there
                    raise await self._report(error) from error
        raise DataCorruptionError(f"index {self._name!r}: its pages are dropped while they are read")

    async def _report(self, error: HeadraceError) -> BaseException:
        """Return what a reader is told who misses a page that should be there."""
        if isinstance(error, SegmentTruncatedError):
            error = DataCorruptionError(f"index {self._name!r}: {error}")
        return await self._judge(error) if isinstance(error, CorruptionError) else error

    async def _drive(self, plan: Fetch[T]) -> T:
        """Run a plan, fetching the pages it asks for."""
        try:
            refs = next(plan)
            while True:
                refs = plan.send(await self._fetch(refs))
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            plan.close()

    async def _fetch(self, refs: Sequence[PageRef]) -> list[Buffer]:
        found: list[Buffer | None] = [self._pages.find(self._tree, ref.offset) for ref in refs]
        missing = [place for place, page in enumerate(found) if page is None]
        for begin in range(0, len(missing), _READS_AT_ONCE):
            places = missing[begin : begin + _READS_AT_ONCE]
            if len(places) == 1:
                found[places[0]] = await self._read_page(refs[places[0]])
            else:
                pages = await asyncio.gather(*(self._read_page(refs[place]) for place in places))
                for place, page in zip(places, pages, strict=True):
                    found[place] = page
        return found  # type: ignore[return-value]  # all are there

    async def _read_page(self, ref: PageRef) -> Buffer:
        reading = self._reading.get(ref.offset)
        if reading is None:
            reading = asyncio.ensure_future(self._read_from_storage(ref))
            self._reading[ref.offset] = reading
            reading.add_done_callback(partial(self._on_read, ref.offset))
        return await asyncio.shield(reading)

    def _on_read(self, offset: int, reading: asyncio.Future[Buffer]) -> None:
        del self._reading[offset]
        if not reading.cancelled():
            reading.exception()  # all who waited for it may have given up

    async def _read_from_storage(self, ref: PageRef) -> Buffer:
        page = bytes(await self._storage().read_stored(self._name, ref.offset, ref.length))
        verify_page(ref, page, self.key_bytes)
        self.pages_read += 1
        if not self._closed:
            self._pages.put(self._tree, ref.offset, page, inner=is_index_page(page))
        return page

    # -------------------------------------------------------------------------------------- writing

    async def update(self, keys: bytes, values: array[int], note: Note = b"") -> array[int]:
        """Set values, or remove keys whose value is ABSENT; return the values before.

        The note is stored with the root that has all of them. A large update is several writes: after a
        failure some of its keys, from the first on, may have their new values.

        Args:
            keys: sorted, each once, one after another.
            values: one for each key.
            note: of the owner, at most NOTE_BYTES_MAX bytes, or a function that returns it for the values
                before.

        Raises:
            NoSuchSegmentError: the index was deleted.
            DataCorruptionError: a page that has to be read is damaged.
            StorageWriteError, StorageReadError, StorageFullError, ThrottledError: retry; the index is whole.
            FencedOutError: a newer owner has the container.
        """
        previous = array("q")
        size = self.key_bytes
        async with self._updating:
            done = 0
            while True:
                root = await self.open()
                end = min(len(values), done + self.keys_at_once)
                is_last = end == len(values)
                some_note = note if is_last else root.note
                if callable(some_note):
                    some_note = partial(_note_of, some_note, previous)
                previous += await self._update_some(
                    keys[done * size : end * size], values[done:end], some_note
                )
                if is_last:
                    return previous
                done = end

    async def _update_some(self, keys: bytes, values: array[int], note: Note) -> array[int]:
        if self._closed:
            raise NoSuchSegmentError(self._name)
        storage = self._storage()
        while True:
            root = await self.open()
            info = await storage.info(self._name)
            self._truncated = 0 if info is None else info.start_offset
            plan = update(
                root,
                keys,
                values,
                note=note,
                policy=self._policy,
                page_bytes_max=self._config.page_bytes,
            )
            write = await self._drive(plan)
            if self._closed:
                raise NoSuchSegmentError(self._name)
            try:
                await storage.write(
                    self._name,
                    root.end,
                    write.data,
                    create=root.end == 0,
                    rollover_bytes=self._config.rollover_bytes,
                )
            except OffsetMismatchError:
                self.root = None  # an earlier write has happened after all
                continue
            except BaseException:
                self.root = None
                raise
            self.bytes_written += write.size
            self._adopt(write)
            await self._truncate(write.root)
            return write.previous

    def _adopt(self, write: TreeWrite) -> None:
        self.root = write.root
        for offset in write.replaced:
            self._pages.drop(self._tree, offset)
        for ref, page in write.new_pages:
            self._pages.put(self._tree, ref.offset, page, inner=is_index_page(page))

    async def _truncate(self, root: TreeRoot) -> None:
        """Free the chunks in front of the live pages, if there is one."""
        lowest = min(root.lowest, root.end - FOOTER_BYTES)  # an empty tree is its footer
        if lowest - self._truncated < self._config.rollover_bytes:
            return
        try:
            await self._storage().truncate(self._name, lowest)
        except HeadraceError as error:
            _logger.warning("dead pages of index %r stay for now: %s", self._name, error)
        else:
            self._truncated = lowest

    async def delete(self) -> None:
        """Delete it from storage; nothing is written afterwards. Fine if there is nothing.

        Raises: ThrottledError, FencedOutError.
        """
        self._closed = True
        async with self._updating:
            if await self._storage().info(self._name) is not None:
                await self._storage().delete(self._name)
            self.root = None

    def close(self) -> None:
        """Its segment was evicted. Pages in memory leave by themselves."""
        self._closed = True


def _note_of(make: Callable[[array[int]], bytes], earlier: array[int], last: array[int]) -> bytes:
    """Return the note for the values before a last write and the ``earlier`` ones."""
    return make(earlier + last)
