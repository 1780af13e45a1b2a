"""Deletes objects that nothing uses any more, then their rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headrace.storage.chunks.chunk_io import ChunkIO
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.garbage import (
    GarbagePart,
    GarbageQueue,
    is_of_later_owner,
    may_be_orphan,
    plan_commits,
)
from headrace.storage.chunks.incarnation import Incarnation
from headrace.storage.metadata.contract import RowCatalogue, RowStore, with_rows
from headrace.storage.metadata.rows import chunk_key, garbage_key
from headrace.storage.providers.contract import LIST_PAGE_OBJECTS_MAX

_logger = logging.getLogger(__name__)

#: Orphans remembered while objects are listed; if there are more, objects are listed again.
_LISTED_MAX: Final = 10_000

#: Rows of deleted chunks that go in one commit, as far as its bytes are enough; one chunk may have more of
#: them than a commit can hold.
_ROWS_MAX: Final = 1000

_DAMAGE_REPORTED_MAX: Final = 3


class GarbageCollector:
    """Empties a GarbageQueue.

    Args:
        io: has the objects.
        rows: has their rows.
        garbage: what is to be deleted.
        config: how much at a time.
        on_deleted: called with the names of chunks that are gone.
        catalogue: knows chunks that have no row in ``rows``.
        prefix: of the objects that are looked at for orphans.
    """

    def __init__(
        self,
        io: ChunkIO,
        rows: RowStore,
        garbage: GarbageQueue,
        config: SegmentStorageConfig,
        on_deleted: Callable[[Sequence[str]], None],
        catalogue: RowCatalogue | None = None,
        *,
        prefix: str = "",
    ) -> None:
        self._io = io
        self._prefix = prefix
        self._rows = rows
        self._garbage = garbage
        self._config = config
        self._on_deleted = on_deleted
        self._catalogue = catalogue
        self.objects_deleted = 0
        self.leftovers_deleted = 0

    async def collect(self, objects_max: int = 1000) -> int:
        """Delete up to ``objects_max`` objects that nothing uses any more; return how many were.

        The deletion of an object that fails is retried in a later call.
        """
        self._report_damaged()
        deleted = await self._delete_orphans(objects_max)
        loop = asyncio.get_running_loop()
        failed: set[int] = set()
        while deleted < objects_max:
            count_max = min(self._config.garbage_batch_chunks, objects_max - deleted)
            parts = await with_rows(self._rows.load, partial(self._next_parts, count_max, failed))
            self._report_damaged()
            if not parts and self._garbage.has_unread(loop.time()):
                await asyncio.sleep(0)  # one call has a bound of its own
                continue  # all that were read were damaged
            if not parts:
                break
            left = await self._io.delete([name for part in parts for name in part.chunks])
            gone: list[GarbagePart] = []
            for part in parts:
                if left.keys().isdisjoint(part.chunks):
                    gone.append(part)
                else:
                    failed.add(part.number)
                    self._garbage.defer(part.number, loop.time() + self._config.garbage_retry_s)
            await self._forget(gone)
            deleted += sum(len(part.chunks) for part in gone)
        return deleted

    def _next_parts(self, count_max: int, failed: set[int]) -> list[GarbagePart]:
        now = asyncio.get_running_loop().time()
        return self._garbage.next_parts(self._rows.get, now, count_max, failed)

    def _report_damaged(self) -> None:
        """Log the batches that were set aside. Their objects are not needed; they only take space."""
        damaged = self._garbage.take_damaged()
        if not damaged:
            return
        words = "; ".join(map(str, damaged[:_DAMAGE_REPORTED_MAX]))
        more = (
            f"; and {len(damaged) - _DAMAGE_REPORTED_MAX} more" if len(damaged) > _DAMAGE_REPORTED_MAX else ""
        )
        _logger.error(
            "damaged data: garbage is retained, because %d batches of it have damaged rows: %s%s",
            len(damaged),
            words,
            more,
        )

    async def _forget(self, parts: Sequence[GarbagePart]) -> None:
        """Remove the rows of what was deleted: those of many small batches together."""
        pending = {garbage_key(part.number): part for part in parts}
        by_part: dict[str, list[GarbagePart]] = {}
        for part in parts:
            kind = self._rows.part_of(dict.fromkeys(map(chunk_key, part.chunks)))
            by_part.setdefault(kind, []).append(part)
        try:
            for together in by_part.values():
                for rows in plan_commits(together, _ROWS_MAX, self._config.commit_bytes_max):
                    await self._rows.commit(rows)
                    for key in rows:
                        if (gone := pending.pop(key, None)) is not None:
                            self._finish(gone)
        except BaseException:
            now = asyncio.get_running_loop().time()
            for part in pending.values():
                self._garbage.reread(part.number, now)
            raise

    def _finish(self, part: GarbagePart) -> None:
        self._garbage.finish(part)
        self._on_deleted(part.chunks)
        self.objects_deleted += len(part.chunks)

    async def collect_orphans(
        self, incarnation: Incarnation, container_epoch: int, owner: Callable[[], str]
    ) -> int:
        """Delete the orphans of former owners; return how many. Lists the objects with the prefix.

        Call it once after recovery, in the background: it pauses between pages of the listing. Deletions that
        fail are retried with the orphans of this owner, in calls of :meth:`collect`.

        Nothing is deleted, now or later, if there are objects of later owners than this one
        (``container_epoch``, and ``owner`` of the objects made here): objects that no row names are data that
        this log has lost then.

        Raises:
            StorageReadError: the listing broke off.
            HeadraceError: later objects cannot be protected now.
        """
        later, names = await self._list_orphans(incarnation.name, container_epoch, owner)
        if later:
            await incarnation.renew()
            _logger.error(
                "damaged data: %s was made by a later owner than the log knows: an older log was put "
                "back in place of a newer one, and what was written since is missing; no object is "
                "deleted as an orphan, put the newer log back",
                later,
            )
            return 0
        deleted = 0
        if len(names) < _LISTED_MAX:
            for start in range(0, len(names), LIST_PAGE_OBJECTS_MAX):
                deleted += await self._delete_listed(names[start : start + LIST_PAGE_OBJECTS_MAX])
                await asyncio.sleep(self._config.leftovers_pause_s)
            return deleted
        async for page in self._io.list(self._prefix):
            names = [found.name for found in page]
            deleted += await self._delete_listed(
                await self._find_orphans(names, incarnation.name, container_epoch)
            )
            await asyncio.sleep(self._config.leftovers_pause_s)
        return deleted

    async def _list_orphans(
        self, incarnation: str, container_epoch: int, owner: Callable[[], str]
    ) -> tuple[str, list[str]]:
        """Return an object of a later owner, if any, and about ``_LISTED_MAX`` orphans."""
        names: list[str] = []
        async for page in self._io.list(self._prefix):
            listed = [found.name for found in page]
            for name in listed:
                if is_of_later_owner(
                    name, incarnation=incarnation, container_epoch=container_epoch, owner=owner()
                ):
                    return name, []
            if len(names) < _LISTED_MAX:
                names += await self._find_orphans(listed, incarnation, container_epoch)
            await asyncio.sleep(self._config.leftovers_pause_s)
        return "", names

    async def _delete_listed(self, names: list[str]) -> int:
        left = await self._io.delete(names)
        if left:
            noted = self._garbage.add_orphans(list(left))
            _logger.warning(
                "of %d orphans %d could not be deleted, %d of them are retained until the next start: %s",
                len(names),
                len(left),
                len(left) - noted,
                next(iter(left.values())),
            )
        self.leftovers_deleted += len(names) - len(left)
        return len(names) - len(left)

    async def _find_orphans(self, listed: list[str], incarnation: str, container_epoch: int) -> list[str]:
        """Return those of the objects that are of former owners and that no row names, nor ever will."""
        names = [
            name
            for name in listed
            if may_be_orphan(name, incarnation=incarnation, container_epoch=container_epoch)
        ]
        if names and self._catalogue is not None:
            inactive = await self._catalogue.find_chunks(names)
            names = [name for name in names if name not in inactive]
        if not names:
            return names
        existing = await self._rows.find_existing(list(map(chunk_key, names)))
        return [name for name in names if chunk_key(name) not in existing]

    async def _delete_orphans(self, objects_max: int) -> int:
        orphans = self._garbage.orphans
        deleted = 0
        while orphans and deleted < objects_max:
            count = min(len(orphans), self._config.garbage_batch_chunks, objects_max - deleted)
            names = [orphans.popleft() for _ in range(count)]
            try:
                left = await self._io.delete(names)
            except BaseException:
                self._garbage.add_orphans(names)  # also deleted ones: deleting again is fine
                raise
            deleted += count - len(left)
            if left:
                self._garbage.add_orphans(list(left))
                break  # enough for this call: the next ones would probably fail as well
        self.objects_deleted += deleted
        return deleted
