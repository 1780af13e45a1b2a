"""What all owners of buckets share in rows, since rows survive everything: their count and their terms."""

from __future__ import annotations

from typing import Final

from headrace.controller.config import BUCKETS_DEFAULT
from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import BUCKET_COUNT_KEY, BUCKET_TERM_KEY, COUNTERS
from headrace.controller.store.rows.number_row import decode_counter, encode_counter
from headrace.errors import InvalidArgumentError, MetadataConflictError, UnknownOutcomeError

_ATTEMPTS_MAX: Final = 100


async def fix_bucket_count(store: MetadataStore, count: int) -> int:
    """Write how many buckets there are, unless it is written; return it. ``count`` 0: whatever is written.

    Raises:
        InvalidArgumentError: there is another number of them, for ever.
    """
    await store.create_table(COUNTERS)
    for _ in range(_ATTEMPTS_MAX):
        row = await store.get(COUNTERS, BUCKET_COUNT_KEY)
        if row is not None:
            present = decode_counter(row.value)
            if count and present != count:
                raise InvalidArgumentError(
                    f"controller.buckets = {count}, but these data were made with {present} buckets, "
                    f"which cannot be changed: set it to {present}"
                )
            return present
        new = count or BUCKETS_DEFAULT
        try:
            await store.update(COUNTERS, [Write(BUCKET_COUNT_KEY, encode_counter(new), ABSENT)])
        except (MetadataConflictError, UnknownOutcomeError):
            continue
        return new
    raise MetadataConflictError("the number of buckets could not be written")


async def draw_term(store: MetadataStore) -> int:
    """Return a number above 0 that is higher than all drawn before, by any controller.

    To be drawn while the buckets are claimed: of two owners of a bucket the later one has the higher term.
    """
    for _ in range(_ATTEMPTS_MAX):
        row = await store.get(COUNTERS, BUCKET_TERM_KEY)
        term, version = (1, ABSENT) if row is None else (decode_counter(row.value), row.version)
        try:
            await store.update(COUNTERS, [Write(BUCKET_TERM_KEY, encode_counter(term + 1), version)])
        except (MetadataConflictError, UnknownOutcomeError):
            continue  # a term is left unused if the outcome is unknown
        return term
    raise MetadataConflictError("too many controllers draw terms at once")
