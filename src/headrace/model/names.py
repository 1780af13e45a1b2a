"""Names of scopes, streams and segments: build, parse, validate.

Source: protocol, "Names"; ``docs/formats/names.md``.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InvalidNameError
from headrace.limits import NAME_CHARS_MAX, USER_NAME_CHARS_MAX
from headrace.model.segment_id import epoch_of, make_segment_id, number_of

SYSTEM_SCOPE: Final = "_system"
READER_GROUP_PREFIX: Final = "_RG"
MARK_PREFIX: Final = "_MARK"
TABLE_SUFFIX: Final = "_kvtable"
SINGLE_BATCH_QUERY: Final = "once"
"""The query of sinks that write one batch and nothing after it. Not the name of such a sink."""

_EPOCH_MARK: Final = ".#epoch."
_TRANSACTION_MARK: Final = "#transaction."
_TRANSIENT_MARK: Final = "#transient."

_STREAM_SEGMENT: Final = re.compile(r"([^/#]+)/([^/#]+)/([0-9]{1,10})\.#epoch\.([0-9]{1,10})\Z")
_USER_NAME: Final = re.compile(r"[A-Za-z0-9.\-]+\Z")
_INTERNAL_NAME: Final = re.compile(r"_?[A-Za-z0-9.\-]+\Z")


def check_user_name(name: object, what: str) -> str:
    """Return ``name`` if it is a legal name of a user's stream, table, group, reader or writer.

    Raises:
        InvalidNameError: the name is empty, too long or has an illegal character.
    """
    if not isinstance(name, str) or not _USER_NAME.match(name) or len(name) > USER_NAME_CHARS_MAX:
        raise InvalidNameError(
            f"illegal {what} name {name!r}: 1 to {USER_NAME_CHARS_MAX} letters, digits, '.' or '-'"
        )
    return name


def check_internal_name(name: str, what: str) -> str:
    """Like :func:`check_user_name`, but one leading underscore is allowed (``_RG...``, ``_MARK...``,
    ``_system``).
    """
    if not _INTERNAL_NAME.match(name) or len(name) > NAME_CHARS_MAX:
        raise InvalidNameError(
            f"illegal {what} name {name!r}: an optional '_',"
            f" then up to {NAME_CHARS_MAX} letters, digits, '.' or '-'"
        )
    return name


def segment_name(scope: str, stream: str, segment_id: int) -> str:
    """Return ``scope/stream/number.#epoch.epoch``."""
    stem = f"{scope}/{stream}" if scope else stream
    return f"{stem}/{number_of(segment_id)}{_EPOCH_MARK}{epoch_of(segment_id)}"


def find_stream_segment(name: str) -> tuple[str, str, int] | None:
    """Return scope, stream and id of a segment of a stream in a scope; None for every other name."""
    match = _STREAM_SEGMENT.match(name)
    if match is None or max(int(match[3]), int(match[4])) >= 1 << 31:
        return None
    return match[1], match[2], make_segment_id(int(match[3]), int(match[4]))


def transaction_segment_name(parent: str, txn_id: int) -> str:
    """Return the name of the shadow of ``parent`` in the transaction with the 128-bit id ``txn_id``."""
    return f"{parent}{_TRANSACTION_MARK}{txn_id:032x}"


def transient_segment_name(parent: str, writer_id: bytes, unique: bytes) -> str:
    return f"{parent}{_TRANSIENT_MARK}{writer_id.hex()}.{unique.hex()}"


def primary_name(segment: str) -> str:
    """Strip a transaction or transient suffix: the name whose container also holds this segment."""
    for mark in (_TRANSACTION_MARK, _TRANSIENT_MARK):
        cut = segment.find(mark)
        if cut >= 0:
            return segment[:cut]
    return segment


def container_key(segment: str) -> str:
    """Return the part of a segment name that decides its container (no suffix, no epoch)."""
    primary = primary_name(segment)
    cut = primary.rfind(_EPOCH_MARK)
    return primary if cut < 0 else primary[:cut]
