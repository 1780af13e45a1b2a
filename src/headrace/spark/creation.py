"""Streams that a job may bring into being: created on first use, as the options say."""

from __future__ import annotations

from headrace.client.blocking import BlockingClient
from headrace.errors import NoSuchScopeError, NoSuchStreamError
from headrace.limits import KIB
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.spark.connection_options import CreationOptions


def ensure_stream(client: BlockingClient, scope: str, stream: str, creation: CreationOptions) -> None:
    """Create scope and stream if they do not exist and that is allowed.

    Raises:
        NoSuchScopeError: the scope is missing and ``allow_create_scope`` is not true.
        NoSuchStreamError: the stream is missing and ``allow_create_stream`` is not true.
    """
    if client.stream_exists(scope, stream):
        return
    if not creation.stream:
        raise NoSuchStreamError(
            f"stream {scope}/{stream} does not exist. Create it: headrace stream create {scope}/{stream}, "
            "or set option allow_create_stream=true"
        )
    if not client.scope_exists(scope):
        if not creation.scope:
            raise NoSuchScopeError(
                f"scope {scope} does not exist. Create it (headrace scope create {scope}), or set option "
                "allow_create_scope=true"
            )
        client.create_scope(scope)
    client.create_stream(scope, stream, configuration(creation))


def configuration(creation: CreationOptions) -> StreamConfiguration:
    """Return the configuration that the options describe."""
    scaling = ScalingPolicy.fixed(creation.segments)
    if creation.target_events:
        scaling = ScalingPolicy.by_event_rate(
            creation.target_events, creation.scale_factor, creation.segments
        )
    elif creation.target_bytes:
        rate_kib = max(1, creation.target_bytes // KIB)
        scaling = ScalingPolicy.by_data_rate(rate_kib, creation.scale_factor, creation.segments)
    return StreamConfiguration(scaling=scaling, retention=creation.retention)
