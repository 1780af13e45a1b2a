"""What requests need, and the hook that decides whether a token allows it.

Whatever changes a segment needs READ_UPDATE: clients ask for tokens to write before they do. Servers of this
protocol demand it of writers and of batches of merges only; no client sends a change with a token to read.
What processes of Headrace ask each other needs READ_UPDATE on everything: their own token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headrace.limits import MERGE_SOURCES_MAX
from headrace.security.permission import Permission
from headrace.security.tokens import EVERYTHING
from headrace.segmentstore.ingress.reply_mapping import question_of
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Request

Authorise = Callable[[str, str, Permission], int | None]
"""Called with (token, segment, permission). Returns for how many milliseconds more this is allowed; None: for
ever. Raises AccessDeniedError, or TokenExpiredError, to refuse.
"""

_QUESTIONS: Final = (
    c.GetStreamSegmentInfo,
    c.GetSegmentAttribute,
    c.LocateOffset,
    c.GetTableSegmentInfo,
    c.ReadTable,
    c.ReadTableKeys,
    c.ReadTableEntries,
    c.ReadTableEntriesDelta,
)


def allow_all(token: str, segment: str, permission: Permission) -> None:
    """Allow everything: the hook of a server without authorisation."""


def check_request(authorise: Authorise, request: Request) -> None:
    """Check the token of a request that is neither a set-up nor a read.

    Raises:
        AccessDeniedError, TokenExpiredError: it does not allow the request.
    """
    permission = Permission.READ if isinstance(request, _QUESTIONS) else Permission.READ_UPDATE
    token: str = request.delegation_token  # type: ignore[attr-defined]  # every request with a handler has one
    for segment in _segments_of(request):
        authorise(token, segment, permission)


def _segments_of(request: Request) -> Iterable[str]:
    match request:
        case c.UpdateTableEntries() | c.ReadTable():  # the most frequent ones
            return (request.segment,)
        case c.MergeSegments():
            return request.target, request.source
        case c.MergeSegmentsBatch():
            # Larger batches are refused; their segments need no look.
            return request.target_segment_id, *request.source_segment_ids[:MERGE_SOURCES_MAX]
        case c.InternalRequest():
            return (EVERYTHING,)
        case _:
            return (question_of(request).segment,)
