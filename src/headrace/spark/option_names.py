"""The names of the options, where each means something, and what becomes of other names. Pure.

Spark hands over a case-insensitive mapping whose keys may be lower-cased; names are therefore snake_case and
compared in lower case. Spark adds options of its own, so a name that means nothing is reported and not
refused, unless it is surely one of ours mistyped: it has the same letters and digits, or is one edit away.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from headrace.errors import InvalidArgumentError


class Door(Enum):
    """The four ways in which Spark enters the connector."""

    BATCH_READ = "a batch read"
    STREAM_READ = "a streaming read"
    BATCH_WRITE = "a batch write"
    STREAM_WRITE = "a streaming write"


_READS: Final = frozenset({Door.BATCH_READ, Door.STREAM_READ})
_WRITES: Final = frozenset({Door.BATCH_WRITE, Door.STREAM_WRITE})
_CREATING: Final = _WRITES | {Door.STREAM_READ}
_ALL: Final = _READS | _WRITES

_MEANT_FOR: Final[dict[str, frozenset[Door]]] = {
    "controller": _ALL,
    "scope": _ALL,
    "stream": _ALL,
    "stream_pattern": _READS,
    "stream_tag": _READS,
    "auth_token": _ALL,
    "auth_token_file": _ALL,
    "user": _ALL,
    "password": _ALL,
    "password_file": _ALL,
    "tls_ca": _ALL,
    "tls_cert_file": _ALL,
    "tls_key_file": _ALL,
    "tls_verify": _ALL,
    "rpc_timeout_ms": _ALL,
    "rpc_retries": _ALL,
    "allow_create_scope": _CREATING,
    "allow_create_stream": _CREATING,
    "default_num_segments": _CREATING,
    "default_scale_factor": _CREATING,
    "default_segment_target_rate_bytes_per_sec": _CREATING,
    "default_segment_target_rate_events_per_sec": _CREATING,
    "default_retention_duration_milliseconds": _CREATING,
    "default_retention_size_bytes": _CREATING,
    "start_stream_cut": _READS,
    "end_stream_cut": _READS,
    "start_timestamp": _READS,
    "end_timestamp": _READS,
    "columns": _READS,
    "serializer": _READS,
    "mode": _READS,
    "invalid_utf8": _READS,
    "batch_bytes": _READS,
    "fail_on_data_loss": _READS,
    "metadata": _READS,
    "min_partitions": _READS,
    "max_partitions": _READS,
    "direct_read": _READS,
    "start_timestamp_strategy": _READS,
    "max_events_per_trigger": frozenset({Door.STREAM_READ}),
    "consumer": frozenset({Door.STREAM_READ}),
    "approx_bytes_per_trigger": frozenset({Door.STREAM_READ}),
    "key_order": frozenset({Door.STREAM_READ}),
    "offset_wait_ms": frozenset({Door.STREAM_READ}),
    "exactly_once": _WRITES,
    "transaction_timeout_ms": _WRITES,
    "read_after_write_consistency": _WRITES,
    "transaction_status_poll_interval_ms": _WRITES,
    "txn_app_id": _WRITES,
    "on_foreign_query": _WRITES,
    "txn_version": frozenset({Door.BATCH_WRITE}),
    "allow_complete": frozenset({Door.STREAM_WRITE}),
}
NOT_BUILT: Final = {
    "auth_env": "HEADRACE_USER and HEADRACE_PASSWORD of the environment count when no option says who asks",
    "tls_server_name": "connect with the name that the server's certificate carries",
}
"""Documented options without an effect, with what to do instead."""

_SPARK_OWN: Final = frozenset({"checkpointlocation", "queryname", "path", "outputmode"})
_OURS: Final = (*_MEANT_FOR, *NOT_BUILT)
_NO_SEPARATORS: Final = {ord(each): None for each in "_-."}
_BY_LETTERS: Final = {name.translate(_NO_SEPARATORS): name for name in _OURS}


def names_without_meaning(names: Iterable[str], door: Door) -> list[str]:
    """Return which lower-case names mean nothing at this door and are not Spark's own.

    Raises:
        InvalidArgumentError: a name is no option and one mistyped: ``exactlyOnce``, ``start_stream_cutt``.
    """
    idle = []
    for name in sorted(set(names) - _SPARK_OWN - NOT_BUILT.keys()):
        if name not in _MEANT_FOR:
            meant = _find_meant(name)
            if meant is not None:
                raise InvalidArgumentError(f"option {name} does not exist: {meant} does")
        if door not in _MEANT_FOR.get(name, ()):
            idle.append(name)
    return idle


def _find_meant(name: str) -> str | None:
    same_letters = _BY_LETTERS.get(name.translate(_NO_SEPARATORS))
    if same_letters is not None:
        return same_letters
    return next((known for known in _OURS if _is_one_edit(name, known)), None)


def _is_one_edit(given: str, known: str) -> bool:
    """Tell whether two different names are one edit apart: a character deleted, inserted, replaced or swapped
    with its neighbour.
    """
    pairs = enumerate(zip(given, known, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), min(len(given), len(known)))
    left, right = given[same:], known[same:]
    if left[1:] == right or left == right[1:] or left[1:] == right[1:]:
        return True
    return left[:2] == right[1::-1] and left[2:] == right[2:]
