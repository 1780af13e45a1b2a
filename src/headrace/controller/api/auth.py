"""One table: what the caller of each gRPC call needs. Pure.

A call that the table does not name is denied to everybody.

Source: protocol, "Authorization model".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.model.names import MARK_PREFIX, READER_GROUP_PREFIX, TABLE_SUFFIX
from headrace.rpc.generated import controller_pb2 as pb
from headrace.security.access import INTERNAL, NOTHING, Need
from headrace.security.permission import Permission
from headrace.security.resources import ROOT, scope_resource, stream_resource, table_resource

Rule = Callable[[Any], Need]

_READ, _UPDATE = Permission.READ, Permission.READ_UPDATE


def make_rules(*, readers_manage_groups: bool = True) -> Mapping[str, Rule]:
    """Return the rule of each call, in snake case.

    If ``readers_manage_groups``, permission to read is enough to make, change and delete reader groups and to
    write their state, as readers do.
    """
    group = _READ if readers_manage_groups else _UPDATE
    internal = {READER_GROUP_PREFIX: group, MARK_PREFIX: _READ}
    """What is made and written on behalf of readers, by the beginning of its name."""

    def create_stream(request: pb.StreamConfig) -> Need:
        return _need(_least(request.streamInfo.stream, internal), scope_resource(request.streamInfo.scope))

    def token(info: pb.StreamInfo) -> Need:
        """Clients of key-value tables ask under the bare name of the table."""
        reads = info.accessOperation == pb.StreamInfo.READ
        permission = _READ if reads else _least(info.stream, internal)
        resource = stream_resource(info.scope, info.stream)
        if info.stream.startswith("_") or info.stream.endswith(TABLE_SUFFIX):
            return _need(permission, resource)
        return _need(permission, resource, table_resource(info.scope, info.stream))

    return {
        "get_controller_server_list": lambda _: NOTHING,
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
        "create_reader_group": _group(group),
        "update_reader_group": _group(group),
        "delete_reader_group": _scope(group, lambda request: request.scope),
        "create_stream": create_stream,
        "create_key_value_table": _scope(_UPDATE, lambda request: request.scope),
        "delete_key_value_table": _table(_UPDATE),
        "get_current_segments_key_value_table": _table(_UPDATE),
        "get_key_value_table_configuration": _table(_READ),
        "update_stream": _stream(_UPDATE, _info),
        "truncate_stream": _stream(_UPDATE, _info),
        "seal_stream": _stream(_UPDATE, _itself),
        "delete_stream": _stream(_UPDATE, _itself),
        "scale": _stream(_UPDATE, _info),
        "get_epoch_segments": _segments(_info),
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
        "get_delegation_token": token,
        "create_tagged_transaction": _stream(_UPDATE, _info),
        "commit_transaction_batch": _stream(_UPDATE, _info),
        "abort_transaction_batch": _stream(_UPDATE, _info),
        "get_sink_watermark": _stream(_READ, _info),
        "get_cut_at": _stream(_READ, _info),
        "truncate_any_stream": _stream(_UPDATE, _info),
        "get_cluster_status": _root(_UPDATE),
        "report_loads": lambda _: INTERNAL,
        "wait_stream": lambda _: INTERNAL,
        "wait_transactions": lambda _: INTERNAL,
    }


def _need(permission: Permission, *resources: str) -> Need:
    return Need(permission, resources)


def _least(stream: str, internal: Mapping[str, Permission]) -> Permission:
    """Return what it takes to make or write ``stream``: less if it is written on behalf of readers."""
    return next((least for prefix, least in internal.items() if stream.startswith(prefix)), _UPDATE)


def _root(permission: Permission) -> Rule:
    return lambda _: _need(permission, ROOT)


def _scope(permission: Permission, of: Callable[[Any], str]) -> Rule:
    return lambda request: _need(permission, scope_resource(of(request)))


def _group(permission: Permission) -> Rule:
    """A group whose positions retain data subscribes to its streams, of whichever scope: who may do that may
    report positions, too. Servers of this protocol ask for nothing there.
    """

    def rule(request: pb.ReaderGroupConfiguration) -> Need:
        streams: dict[str, None] = {}
        if request.retentionType != pb.ReaderGroupConfiguration.NONE:
            infos = (each.streamInfo for each in request.startingStreamCuts)
            streams = dict.fromkeys(stream_resource(info.scope, info.stream) for info in infos)
        also = tuple(_need(_UPDATE, stream) for stream in streams)
        return Need(permission, (scope_resource(request.scope),), also)

    return rule


def _stream(permission: Permission, of: Callable[[Any], pb.StreamInfo]) -> Rule:
    def rule(request: Any) -> Need:
        info = of(request)
        return _need(permission, stream_resource(info.scope, info.stream))

    return rule


def _table(permission: Permission) -> Rule:
    return lambda request: _need(permission, table_resource(request.scope, request.kvtName))


def _segments(info_of: Callable[[Any], pb.StreamInfo]) -> Rule:
    """A request that announces no use of the answer needs permission to read only."""

    def rule(request: Any) -> Need:
        info = info_of(request)
        only_looks = info.accessOperation == pb.StreamInfo.NONE
        return _need(_READ if only_looks else _UPDATE, stream_resource(info.scope, info.stream))

    return rule


def _itself(request: Any) -> pb.StreamInfo:
    info: pb.StreamInfo = request
    return info


def _info(request: Any) -> pb.StreamInfo:
    info: pb.StreamInfo = request.streamInfo
    return info
