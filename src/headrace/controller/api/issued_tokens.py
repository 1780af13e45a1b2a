"""One table: which replies carry a delegation token, and about what. Signs them.

A token allows what the request asks for, and never more than its caller may do. Without authorization there
are none: the field stays empty, and clients know that they need no token.

Source: protocol, "Authorization model", "Delegation tokens".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.model.names import MARK_PREFIX, READER_GROUP_PREFIX, TABLE_SUFFIX
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.clock import Clock
from headrace.security.access import Caller
from headrace.security.permission import Permission
from headrace.security.resources import stream_resource, table_resource
from headrace.security.tokens import TokenKey, issue, stream_claim, table_claim

_NONE, _READ, _UPDATE = Permission.NONE, Permission.READ, Permission.READ_UPDATE

_ASKED: Final = {pb.StreamInfo.NONE: _NONE, pb.StreamInfo.READ: _READ}
"""By access operation. Every other one writes, or leaves it open as some clients always do."""


def _itself(request: Any) -> pb.StreamInfo:
    info: pb.StreamInfo = request
    return info


def _info(request: Any) -> pb.StreamInfo:
    info: pb.StreamInfo = request.streamInfo
    return info


def _table(request: Any) -> pb.StreamInfo:
    return pb.StreamInfo(scope=request.scope, stream=request.kvtName + TABLE_SUFFIX)


ISSUES: Final[Mapping[str, Callable[[Any], pb.StreamInfo]]] = {
    "get_delegation_token": _itself,
    "get_current_segments": _itself,
    "get_segments": _info,
    "get_epoch_segments": _info,
    "get_segments_immediately_following": _info,
    "get_segments_immediatly_following": _info,
    "get_segments_between": _info,
    "create_transaction": _info,
    "get_current_segments_key_value_table": _table,
}
"""By call: the stream that the token is about."""


class IssuedTokens:
    """The tokens of one controller."""

    def __init__(
        self, key: TokenKey, clock: Clock, lifetime_s: float, *, readers_manage_groups: bool = True
    ) -> None:
        self._key = key
        self._clock = clock
        self._lifetime_s = round(lifetime_s)
        self._readers_manage_groups = readers_manage_groups

    def add(self, call: str, request: Any, reply: Any, caller: Caller) -> Any:
        """Return ``reply`` with the token that belongs into it, if one does. ``reply`` is not changed.

        Raises:
            InvalidArgumentError: the request names what cannot exist.
        """
        about = ISSUES.get(call)
        if about is None:
            return reply
        info = about(request)
        asked = _ASKED.get(info.accessOperation, _UPDATE)
        claims = {stream_claim(info.scope, info.stream): min(asked, self._on_stream(info, caller))}
        if call == "get_delegation_token" and not _is_internal(info.stream):
            # Clients of key-value tables ask under the bare name of the table.
            held = caller.permission(table_resource(info.scope, info.stream))
            claims[table_claim(info.scope, info.stream)] = min(asked, held)
        claims = {resource: allowed for resource, allowed in claims.items() if allowed > _NONE}
        if not claims:
            return reply
        answer = type(reply)()
        answer.CopyFrom(reply)  # it may be one that is rendered once for all
        answer.delegationToken = issue(self._key, claims, self._clock.now_ms() // 1000, self._lifetime_s)
        return answer

    def _on_stream(self, info: pb.StreamInfo, caller: Caller) -> Permission:
        """Return what the caller may do to the segments of a stream."""
        held = caller.permission(stream_resource(info.scope, info.stream))
        if info.stream.startswith(MARK_PREFIX):
            return min(held, _READ)  # only controllers write them
        if info.stream.startswith(READER_GROUP_PREFIX) and self._readers_manage_groups and held >= _READ:
            return _UPDATE  # readers write the state of their group
        return held


def _is_internal(stream: str) -> bool:
    return stream.startswith("_") or stream.endswith(TABLE_SUFFIX)
