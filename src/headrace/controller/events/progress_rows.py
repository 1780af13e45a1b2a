"""Reads and writes how far the events of each bucket are done, and those that were set aside.

Of each bucket the events set aside last are retained: the n-th one takes the place of the one a hundred
before it, so a successor that sets the same event aside again writes the same row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import EVENTS, FAILED_EVENTS, event_progress_key, failed_event_key
from headrace.controller.store.rows.event_rows import (
    FailedEventRow,
    ProgressRow,
    decode_failed_event,
    decode_progress,
    encode_failed_event,
    encode_progress,
)
from headrace.errors import UnknownOutcomeError

FAILED_PER_BUCKET_MAX: Final = 100
_SCAN_ROWS: Final = 500


@dataclass(slots=True)
class FailedEvents:
    """What was set aside and is retained, by bucket, and how many older ones are not."""

    rows: list[tuple[int, FailedEventRow]]
    dropped: int


class ProgressRows:
    """The rows of one controller. Used on the controller's loop."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def load(self, bucket: int) -> tuple[ProgressRow, int]:
        """Return the row of a bucket and its version."""
        row = await self._store.get(EVENTS, event_progress_key(bucket))
        return (ProgressRow(), ABSENT) if row is None else (decode_progress(row.value), row.version)

    async def write(self, bucket: int, row: ProgressRow, version: int) -> int:
        """Write the row over ``version`` and return its new version.

        Raises MetadataConflictError: another controller owns the bucket.
        """
        write = Write(event_progress_key(bucket), encode_progress(row), version)
        try:
            (written,) = await self._store.update(EVENTS, [write])
        except UnknownOutcomeError:
            present, written = await self.load(bucket)
            if present != row:
                raise
        return written

    async def set_aside(self, bucket: int, number: int, row: FailedEventRow) -> None:
        """Retain the event that is the ``number``-th one set aside in its bucket."""
        key = failed_event_key(bucket, number % FAILED_PER_BUCKET_MAX)
        await self._store.update(FAILED_EVENTS, [Write(key, encode_failed_event(row))])

    async def failed(self, bucket_count: int) -> FailedEvents:
        """Return what was set aside, the oldest first."""
        rows: list[tuple[int, FailedEventRow]] = []
        token = b""
        while (page := await self._store.scan(FAILED_EVENTS, token, _SCAN_ROWS)).rows:
            rows += [
                (int.from_bytes(key[:4], "big"), decode_failed_event(row.value)) for key, row in page.rows
            ]
            token = page.token
        rows.sort(key=lambda each: (each[1].time_ms, each[0], each[1].offset))
        keys = [event_progress_key(bucket) for bucket in range(bucket_count)]
        found = await self._store.get_many(EVENTS, keys)
        counts = [0 if row is None else decode_progress(row.value).failed for row in found]
        return FailedEvents(rows, sum(max(0, count - FAILED_PER_BUCKET_MAX) for count in counts))
