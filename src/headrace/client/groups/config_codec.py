"""The configuration of a reader group in bytes, as its state has it. Pure.

Source: protocol, "ReaderGroupConfig"; ``docs/formats/reader-group.md``; pinned by
``tests/golden/test_reader_group.py``.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import InvalidArgumentError
from headrace.model.reader_group import Consumption, ReaderGroupConfig
from headrace.model.stream_cut import StreamCut
from headrace.model.versioned import (
    VersionedReader,
    encode_bytes,
    encode_compact_int,
    encode_int,
    encode_long,
    encode_map,
    encode_object,
    encode_text,
)


def encode_config(config: ReaderGroupConfig) -> bytes:
    first = (
        encode_long(config.checkpoint_interval_ms)
        + encode_long(config.refresh_ms)
        + encode_map(config.starts, encode_text, _encode_cut)
        + encode_map(config.ends, encode_text, _encode_cut)
    )
    second = first + encode_int(config.checkpoints_max)
    third = encode_compact_int(config.consumption) + encode_long(config.generation) + config.group_id
    return encode_object(0, first, second, third)


def decode_config(data: bytes | memoryview) -> ReaderGroupConfig:
    """Parse a configuration, also of clients that did not know all of it yet.

    Raises:
        InvalidArgumentError: it is none.
    """
    version, revisions = VersionedReader(data).envelope()
    part = revisions.get(1) or revisions.get(0)
    if version != 0 or part is None:
        raise InvalidArgumentError(f"unknown version {version} of a reader group's configuration")
    interval, refresh = part.int64(), part.int64()
    starts = part.map(part.text, lambda: StreamCut.from_bytes(part.block()))
    ends = part.map(part.text, lambda: StreamCut.from_bytes(part.block()))
    config = ReaderGroupConfig(
        starts=starts,
        ends=ends,
        checkpoint_interval_ms=interval,
        refresh_ms=refresh,
        checkpoints_max=part.int32() if 1 in revisions else 3,
    )
    last = revisions.get(2)
    if last is None:
        return config
    kind = last.compact_int()
    if kind > max(Consumption):
        raise InvalidArgumentError(f"unknown consumption {kind} of a reader group")
    generation, group_id = last.int64(), last.take(16).tobytes()
    return replace(config, consumption=Consumption(kind), generation=generation, group_id=group_id)


def _encode_cut(cut: StreamCut) -> bytes:
    return encode_bytes(cut.to_bytes())
