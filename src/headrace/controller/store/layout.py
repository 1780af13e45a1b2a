"""Where each row lives: the names of tables and the keys in them.

==============================  ==================================================  =====================
Table                           Key                                                 Row
==============================  ==================================================  =====================
``scopes``                      scope                                               scope
``scope-<scope>-<uid>``         ``s`` + stream, ``g`` + group, ``k`` + table        stream, reader group,
                                                                                    key-value table
``details-<n>``                 stream uid + ``e`` + epoch                          epoch
                                stream uid + ``z`` + segment id                     sealed segment
                                stream uid + ``u``, ``m``                           subscribers, marks
                                stream uid + ``l``                                  load marks
                                stream uid + ``w`` + sink, ``x``                    sink, names of sinks
                                stream uid + ``v``, ``v`` + level + number          cut series, its blocks
                                stream uid + ``r``                                  retention set
                                stream uid + ``q`` + time                           cut of a retention set
``txns-<n>``                    stream uid + transaction id                         unfinished transaction
``finished-<day>``              stream uid + block of 1024 transaction counters     outcomes
``deleted``                     ``s`` or ``k`` + scope/name                         highest segment number
``bucket-<b>``                  ``r``, ``m`` + scope/stream                         member of a bucket
``events``                      bucket                                              progress of its events
``failed-events``               bucket + place                                      event set aside
``counters``                    ``txn``                                             next free counter
                                ``finished-<day>``                                  a day with such a table
                                ``bucket-count``, ``bucket-term``                   buckets, next free term
==============================  ==================================================  =====================

Members of a scope share one table, so that a scope is empty exactly when its table is. Details are spread
over a few tables by the stream's uid: enough to use several containers, few enough for updates to be joined.

Source: ``docs/formats/controller-rows.md``.
"""

from __future__ import annotations

from typing import Final

SCOPES: Final = "scopes"
DELETED: Final = "deleted"
COUNTERS: Final = "counters"
EVENTS: Final = "events"
FAILED_EVENTS: Final = "failed-events"
SHARDS: Final = 4

STREAM: Final = b"s"
RETENTION: Final = b"r"
"""In the table of a bucket: the stream has a retention policy."""
WATERMARKS: Final = b"m"
"""In the table of a bucket: writers of the stream note times."""

READER_GROUP: Final = b"g"
KEY_VALUE_TABLE: Final = b"k"
TXN_COUNTER_KEY: Final = b"txn"
BUCKET_COUNT_KEY: Final = b"bucket-count"
BUCKET_TERM_KEY: Final = b"bucket-term"

DAY_MS: Final = 86_400_000


def members_table(scope: str, uid: bytes) -> str:
    return f"scope-{scope}-{uid.hex()}"


def member_key(kind: bytes, name: str) -> bytes:
    return kind + name.encode("ascii")


def member_name(key: bytes) -> str:
    return key[1:].decode("ascii")


def details_table(uid: bytes) -> str:
    return f"details-{uid[-1] % SHARDS}"


def epoch_key(uid: bytes, epoch: int) -> bytes:
    return uid + b"e" + epoch.to_bytes(4, "big")


def sealed_key(uid: bytes, segment_id: int) -> bytes:
    return uid + b"z" + segment_id.to_bytes(8, "big")


def subscribers_key(uid: bytes) -> bytes:
    return uid + b"u"


def sink_key(uid: bytes, sink: str) -> bytes:
    return uid + b"w" + sink.encode("utf-8")


def sink_names_key(uid: bytes) -> bytes:
    return uid + b"x"


def marks_key(uid: bytes) -> bytes:
    return uid + b"m"


def cut_series_key(uid: bytes) -> bytes:
    return uid + b"v"


def cut_block_key(uid: bytes, level: int, number: int) -> bytes:
    return uid + b"v" + bytes([level]) + number.to_bytes(4, "big")


def retention_key(uid: bytes) -> bytes:
    return uid + b"r"


def retention_cut_key(uid: bytes, time_ms: int) -> bytes:
    return uid + b"q" + time_ms.to_bytes(8, "big")


def load_marks_key(uid: bytes) -> bytes:
    return uid + b"l"


def txns_table(uid: bytes) -> str:
    return f"txns-{uid[-1] % SHARDS}"


def txn_key(uid: bytes, txn_id: int) -> bytes:
    return uid + txn_id.to_bytes(16, "big")


def finished_table(day: int) -> str:
    return f"finished-{day}"


def finished_key(uid: bytes, block: int) -> bytes:
    """A block of stream epoch 1024 or later takes three bytes more: older keys stay as they are."""
    return uid + block.to_bytes(12 if block < 1 << 96 else 15, "big")


def finished_day_key(day: int) -> bytes:
    return finished_table(day).encode("ascii")


def is_finished_day_key(key: bytes) -> bool:
    return key.startswith(b"finished-")


def deleted_key(kind: bytes, scope: str, name: str) -> bytes:
    return kind + f"{scope}/{name}".encode("ascii")


def bucket_table(bucket: int) -> str:
    return f"bucket-{bucket}"


def bucket_key(kind: bytes, scope: str, stream: str) -> bytes:
    return kind + f"{scope}/{stream}".encode("ascii")


def bucket_member(key: bytes) -> tuple[str, str]:
    """Return scope and stream."""
    scope, _, stream = key[1:].decode("ascii").partition("/")
    return scope, stream


def event_progress_key(bucket: int) -> bytes:
    return bucket.to_bytes(4, "big")


def failed_event_key(bucket: int, place: int) -> bytes:
    return bucket.to_bytes(4, "big") + place.to_bytes(4, "big")


def permanent_tables(buckets: int) -> list[str]:
    """The tables every controller needs before it serves calls."""
    sharded = [f"{stem}-{shard}" for stem in ("details", "txns") for shard in range(SHARDS)]
    by_bucket = [bucket_table(bucket) for bucket in range(buckets)]
    return [SCOPES, DELETED, COUNTERS, EVENTS, FAILED_EVENTS, *sharded, *by_bucket]
