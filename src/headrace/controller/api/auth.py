"""Authorization of calls: the resources and permissions each of them needs, and the hook that decides.

Authorization is off unless a server is given an ``Authorizer``.

Source: protocol, "Authorization model".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headrace.rpc.generated import controller_pb2 as pb
from headrace.security.permission import Permission
from headrace.security.resources import ROOT, scope_resource, stream_resource, table_resource


class Authorizer(Protocol):
    """Decides about credentials. Called in threads of the server; must be safe there."""

    def check(self, authorization: str, resource: str, permission: Permission) -> None:
        """Return if the holder of the ``authorization`` header (empty: none) has the permission.

        Raises:
            UnauthenticatedError: the credentials are missing or wrong.
            PermissionDeniedError: they are good, but not for this.
        """


Need = tuple[str, Permission]
Rule = Callable[[Any], Need]

_READ, _UPDATE = Permission.READ, Permission.READ_UPDATE


def need_of(call: str, request: Any) -> Need | None:
    """Return what the caller of ``call`` (in snake case) needs; None if every caller may make it."""
    rule = RULES.get(call)
    return None if rule is None else rule(request)


def _root(permission: Permission) -> Rule:
    return lambda _: (ROOT, permission)


def _scope(permission: Permission, of: Callable[[Any], str]) -> Rule:
    return lambda request: (scope_resource(of(request)), permission)


def _stream(permission: Permission, of: Callable[[Any], pb.StreamInfo]) -> Rule:
    def rule(request: Any) -> Need:
        info = of(request)
        return stream_resource(info.scope, info.stream), permission

    return rule


def _table(permission: Permission) -> Rule:
    return lambda request: (table_resource(request.scope, request.kvtName), permission)


def _create_stream(request: pb.StreamConfig) -> Need:
    """Internal streams are made on behalf of readers."""
    permission = _READ if request.streamInfo.stream.startswith("_") else _UPDATE
    return scope_resource(request.streamInfo.scope), permission


def _segments(info_of: Callable[[Any], pb.StreamInfo]) -> Rule:
    """A request that announces no use of the answer needs permission to read only."""

    def rule(request: Any) -> Need:
        info = info_of(request)
        only_looks = info.accessOperation == pb.StreamInfo.NONE
        return stream_resource(info.scope, info.stream), _READ if only_looks else _UPDATE

    return rule


def _token(info: pb.StreamInfo) -> Need:
    reads = info.accessOperation == pb.StreamInfo.READ or info.stream.startswith("_")
    return stream_resource(info.scope, info.stream), _READ if reads else _UPDATE


def _itself(request: Any) -> pb.StreamInfo:
    info: pb.StreamInfo = request
    return info


def _info(request: Any) -> pb.StreamInfo:
    info: pb.StreamInfo = request.streamInfo
    return info


RULES: Final[Mapping[str, Rule]] = {
    "create_scope": _root(_UPDATE),
    "delete_scope": _root(_UPDATE),
    "delete_scope_recursive": _root(_UPDATE),
    "get_controller_to_bucket_mapping": _root(_UPDATE),
    "list_scopes": _root(_READ),
    "check_scope_exists": _scope(_READ, lambda request: request.scope),
    "list_streams_in_scope": _scope(_READ, lambda request: request.scope.scope),
    "list_streams_in_scope_for_tag": _scope(_READ, lambda request: request.scope.scope),
    "list_key_value_tables_in_scope": _scope(_READ, lambda request: request.scope.scope),
    "get_reader_group_config": _scope(_READ, lambda request: request.scope),
    "create_reader_group": _scope(_READ, lambda request: request.scope),
    "update_reader_group": _scope(_READ, lambda request: request.scope),
    "delete_reader_group": _scope(_READ, lambda request: request.scope),
    "create_stream": _create_stream,
    "create_key_value_table": _scope(_UPDATE, lambda request: request.scope),
    "delete_key_value_table": _table(_UPDATE),
    "get_current_segments_key_value_table": _table(_UPDATE),
    "get_key_value_table_configuration": _table(_READ),
    "update_stream": _stream(_UPDATE, _info),
    "truncate_stream": _stream(_UPDATE, _info),
    "seal_stream": _stream(_UPDATE, _itself),
    "delete_stream": _stream(_UPDATE, _itself),
    "scale": _stream(_UPDATE, _info),
    "get_epoch_segments": _stream(_UPDATE, _info),
    "create_transaction": _stream(_UPDATE, _info),
    "commit_transaction": _stream(_UPDATE, _info),
    "abort_transaction": _stream(_UPDATE, _info),
    "ping_transaction": _stream(_UPDATE, _info),
    "list_subscribers": _stream(_UPDATE, _itself),
    "update_subscriber_stream_cut": _stream(_UPDATE, lambda request: request.streamCut.streamInfo),
    "note_timestamp_from_writer": _stream(_UPDATE, lambda request: request.position.streamInfo),
    "remove_writer": _stream(_UPDATE, lambda request: request.stream),
    "check_stream_exists": _stream(_READ, _itself),
    "get_stream_configuration": _stream(_READ, _itself),
    "get_segments_immediately_following": _stream(_READ, _info),
    "get_segments_immediatly_following": _stream(_READ, _info),
    "get_segments_between": _stream(_READ, _info),
    "check_scale": _stream(_READ, _info),
    "get_uri": _stream(_READ, _info),
    "is_segment_valid": _stream(_READ, _info),
    "is_stream_cut_valid": _stream(_READ, _info),
    "check_transaction_state": _stream(_READ, _info),
    "list_completed_transactions": _stream(_READ, _info),
    "get_current_segments": _segments(_itself),
    "get_segments": _segments(_info),
    "get_delegation_token": _token,
    "create_tagged_transaction": _stream(_UPDATE, _info),
    "commit_transaction_batch": _stream(_UPDATE, _info),
    "abort_transaction_batch": _stream(_UPDATE, _info),
    "get_sink_watermark": _stream(_READ, _info),
    "get_cut_at": _stream(_READ, _info),
}
"""Every call but ``get_controller_server_list``, which clients make before they have credentials."""
