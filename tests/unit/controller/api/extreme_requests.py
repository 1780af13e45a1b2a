"""Requests for every call of all services: a valid one, and the same with each field at its extremes."""

import math
import uuid

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message_factory import GetMessageClass

from headrace.limits import INT64_MAX, INT64_MIN
from headrace.model.segment_report import Load, SegmentReport, encode_report
from headrace.rpc.generated import (
    batch_commit_pb2,
    cluster_status_pb2,
    controller_pb2,
    internal_pb2,
    stream_time_pb2,
    truncation_pb2,
)

SERVICES = [
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    batch_commit_pb2.DESCRIPTOR.services_by_name["BatchCommitService"],
    stream_time_pb2.DESCRIPTOR.services_by_name["StreamTimeService"],
    truncation_pb2.DESCRIPTOR.services_by_name["TruncationService"],
    cluster_status_pb2.DESCRIPTOR.services_by_name["ClusterStatusService"],
    internal_pb2.DESCRIPTOR.services_by_name["InternalService"],
]
METHODS = {method.name: method for service in SERVICES for method in service.methods}

NEW = {"createScope": "scope", "createStream": "stream", "createKeyValueTable": "kvtName"}
"""Calls that would find what exists, with the field that is to have a new name."""

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
EXTREMES = {
    Field.TYPE_INT64: (INT64_MIN, INT64_MAX, -1, 0, 1 << 32),
    Field.TYPE_INT32: (INT32_MIN, INT32_MAX, -1, 0),
    Field.TYPE_ENUM: (-1, 99, INT32_MAX),
    Field.TYPE_BOOL: (True,),
    Field.TYPE_DOUBLE: (math.nan, math.inf, -math.inf, -1.0, 1e308, 5e-324),
    Field.TYPE_BYTES: (b"", b"\xff" * 16, b"x" * 20_000),
    Field.TYPE_STRING: ("", "/", "a/b", "\x00", "ä\U0001f600", "x" * 20_000, "-1", "1-AA=="),
}
GARBAGE = (b"\xff" * 16, b"\x0a\x02\xff\xfe", b"\x0a\x7f", b"\x08")

_VALUES = {
    "stream": "t",
    "kvtName": "k",
    "readerGroup": "g",
    "readerGroupName": "g",
    "readerGroupId": str(uuid.UUID(int=1)),
    "writer": "w",
    "writerId": "w",
    "sink": "sink",
    "query": "query",
    "lease": 30_000,
    "leaseMs": 30_000,
    "minNumSegments": 2,
    "partitionCount": 1,
    "primaryKeyLength": 8,
    "maxOutstandingCheckpointRequest": 1,
    "retentionType": 1,
    "retentionParam": 1000,
    "retentionMax": 2000,
    "end": 0.5,
    "batch": 1,
}


def valid_request(name, txn_id, scope="s"):
    """Return a request that names what exists: stream ``s/t`` with segments 0 and 1, table, group, txn."""
    values = {**_VALUES, "scope": scope, "subscriber": f"{scope}/g"}
    request = _fill(GetMessageClass(METHODS[name].input_type)(), txn_id, values)
    if name in NEW:
        holder = request.streamInfo if name == "createStream" else request
        setattr(holder, NEW[name], f"new-{scope}")
    return request


def variants(request):
    """Yield (what was changed, request): each field at its extremes or left out, then all of them at once."""
    yield "empty", type(request)()
    for path, set_value, values in list(_leaves(request)):
        for value in values:
            changed = type(request)()
            changed.CopyFrom(request)
            set_value(changed, value)
            yield f"{path} = {value!r:.40}", changed
    for index in range(2):
        changed = type(request)()
        changed.CopyFrom(request)
        for _, set_value, values in list(_leaves(request)):
            if len(values) > index and not isinstance(values[0], (str, bool)):
                set_value(changed, values[index])
        yield f"all numbers at extreme {index}", changed


def _fill(message, txn_id, values):
    for field in message.DESCRIPTOR.fields:
        if field.name in {"cut", "from", "to"}:
            getattr(message, field.name).update({0: 0, 1: 0})
        elif field.name == "reports":
            message.reports.append(
                encode_report(SegmentReport(f"{values['scope']}/t/0.#epoch.0", Load.WARM, 0))
            )
        elif field.name == "sealedSegments":
            message.sealedSegments.append(0)
        elif field.message_type is not None and field.message_type.name == "TxnId":
            _last(message, field).CopyFrom(txn_id)
        elif field.message_type is not None:
            _fill(_last(message, field), txn_id, values)
        elif field.is_repeated:
            getattr(message, field.name).append("x")
        elif field.name in values and not (field.name == "tag" and field.is_repeated):
            setattr(message, field.name, values[field.name])
    if message.DESCRIPTOR.name == "TxnId":
        message.CopyFrom(txn_id)
    return message


def _last(message, field):
    """Return the sub-message of a field, a new one if it is repeated."""
    value = getattr(message, field.name)
    if field.is_repeated:
        return value.add()
    value.SetInParent()
    return value


def _leaves(message, path=(), prefix=""):
    """Yield (name, setter, extreme values) of every field below ``message``."""
    for field in message.DESCRIPTOR.fields:
        name = prefix + field.name
        here = (*path, field)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield f"key of {name}", _setter(here, _set_key), EXTREMES[Field.TYPE_INT64]
            yield f"offset of {name}", _setter(here, _set_offset), EXTREMES[Field.TYPE_INT64]
            yield name, _setter(here, _clear), (None,)
        elif field.message_type is not None:
            yield name, _setter(here, _clear), (None,)
            child = getattr(message, field.name)
            yield from _leaves(child[0] if field.is_repeated else child, here, name + ".")
        else:
            yield name, _setter(here, _set), EXTREMES[field.type]


def _setter(path, change):
    def set_value(message, value):
        for field in path[:-1]:
            child = getattr(message, field.name)
            message = (child or [child.add()])[0] if field.is_repeated else child
        change(message, path[-1], value)

    return set_value


def _clear(message, field, _):
    message.ClearField(field.name)


def _set(message, field, value):
    if field.is_repeated:
        getattr(message, field.name)[:] = [value]
    else:
        setattr(message, field.name, value)


def _set_key(message, field, value):
    getattr(message, field.name)[value] = 0


def _set_offset(message, field, value):
    getattr(message, field.name)[0] = value
