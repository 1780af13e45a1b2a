"""Headrace: tiered streaming storage in Python.

>>> import headrace
>>> client = headrace.connect("tcp://localhost:9090")

:func:`connect` returns the client of threads, notebooks and scripts; :mod:`headrace.aio` has the one of
asyncio, under the same names. Names are imported when first used: servers and command lines do not pay for
them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # for type checkers; a program pays for a name when it uses it
    from headrace import aio as aio
    from headrace import errors as errors
    from headrace import testing as testing
    from headrace.client.blocking import *

__version__ = "0.1.0"

_MODULES: Final = frozenset({"aio", "errors", "spark", "testing"})

__all__ = [
    "UNBOUNDED",
    "Ack",
    "Batch",
    "BatchOutcome",
    "BatchStatus",
    "ByteReader",
    "ByteWriter",
    "Client",
    "ClientConfig",
    "Consumption",
    "Credentials",
    "Event",
    "EventBatch",
    "EventReader",
    "EventWriter",
    "GroupLag",
    "GroupMember",
    "GroupReader",
    "Insert",
    "KeyRange",
    "KeyValueTable",
    "KeyValueTableConfiguration",
    "MarkedSegment",
    "NamedWriter",
    "Put",
    "ReaderConfig",
    "ReaderGroup",
    "ReaderGroupConfig",
    "Record",
    "RecordBatch",
    "Remove",
    "RetentionPolicy",
    "Revision",
    "RevisionedStream",
    "ScalingPolicy",
    "SegmentInfo",
    "SegmentLag",
    "SegmentRange",
    "SegmentRangeReader",
    "Serializer",
    "SinkWatermark",
    "Stream",
    "StreamConfiguration",
    "StreamCut",
    "StreamInfo",
    "Successor",
    "Synchronizer",
    "TableVersion",
    "TimeWindow",
    "TimeWindows",
    "TimedCut",
    "Transaction",
    "TransactionStatus",
    "TransactionTag",
    "TxnWriter",
    "VersionedEntry",
    "VersionedKey",
    "Watermark",
    "WriterConfig",
    "aio",
    "connect",
    "errors",
    "events_to_arrow",
]


if not TYPE_CHECKING:  # else a checker takes every name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"headrace.{name}")
        if name in __all__:
            return getattr(importlib.import_module("headrace.client.blocking"), name)
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
