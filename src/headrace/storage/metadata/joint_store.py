"""Joins commits that are asked for at the same time: a thousand small flushes cost a few commits, not a
thousand.

While one commit is in flight, those requested meanwhile gather, and are made together when it has ended. A
commit that is alone is made at the end of the loop's iteration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import StorageWriteError
from headrace.storage.metadata.contract import RowStore
from headrace.storage.metadata.rows import size_of


@dataclass(slots=True)
class JointCommit:
    """A commit batch. The first caller performs it; the others, its followers, wait for its outcome."""

    changes: dict[str, bytes | None]
    size: int
    followers: list[asyncio.Future[None]] = field(default_factory=list)

    def notify(self, error: BaseException | None) -> None:
        """Notify the followers how it ended. Each commit of theirs happened if, and only if, this one did."""
        if isinstance(error, asyncio.CancelledError):
            error = StorageWriteError("the commit batch of these rows was stopped; they may be durable")
        for follower in self.followers:
            if follower.done():
                continue
            if error is None:
                follower.set_result(None)
            else:
                follower.set_exception(error)


@dataclass(slots=True)
class JointStatistics:
    """Counts since creation: commits that were requested, and those that were made."""

    asked: int = 0
    made: int = 0


class JointRowStore:
    """A RowStore in front of another. Commits of one part of it are made one at a time, in the order of the
    first in each.

    The commit of a follower that is cancelled may still happen.

    Args:
        rows: where the commits are made.
        bytes_max: joint ones are no larger than this; a single one that is larger is made alone.
    """

    def __init__(self, rows: RowStore, bytes_max: int) -> None:
        self._rows = rows
        self._bytes_max = bytes_max
        self._gathering: dict[str, JointCommit] = {}
        """By the part of the row store."""
        self._locks: dict[str, asyncio.Lock] = {}
        self.statistics = JointStatistics()
        self.get = rows.get
        self.load = rows.load
        self.find_existing = rows.find_existing
        self.part_of = rows.part_of

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """See ``RowStore.commit``.

        Raises:
            StorageWriteError: the outcome is unknown; the caller that performed it was cancelled.
        """
        self.statistics.asked += 1
        size = size_of(changes)
        part = self._rows.part_of(changes)
        joint = self._gathering.get(part)
        if joint is not None and joint.size + size <= self._bytes_max:
            joint.changes.update(changes)
            joint.size += size
            follower: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            joint.followers.append(follower)
            await follower
        else:
            await self._lead(JointCommit(dict(changes), size), part)

    async def _lead(self, joint: JointCommit, part: str) -> None:
        gathering = self._gathering
        gathering[part] = joint
        lock = self._locks.setdefault(part, asyncio.Lock())
        error: BaseException | None = None
        try:
            if not lock.locked():
                await asyncio.sleep(0)
            async with lock:
                if gathering.get(part) is joint:
                    del gathering[part]
                self.statistics.made += 1
                await self._rows.commit(joint.changes)
        except BaseException as failure:
            error = failure
            raise
        finally:
            if gathering.get(part) is joint:
                del gathering[part]
            joint.notify(error)
