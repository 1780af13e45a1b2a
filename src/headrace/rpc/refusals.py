"""What each status of each call means: one table for controllers, which answer with it, and for clients.

A call is refused with a status in its reply if its message has one that fits, else with a gRPC status code
(:mod:`headrace.rpc.status`). Either way a controller of ours says which error it was, in trailing metadata
that other clients ignore: a status such as FAILURE stands for many. A client that is not told, since the
controller is another one, takes the first error of the status.

Source: protocol, "Semantics per RPC"; every call and status is listed in ``docs/reference/errors.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace import errors
from headrace.errors import HeadraceError
from headrace.rpc.generated import batch_commit_pb2 as batch_pb
from headrace.rpc.generated import controller_pb2 as pb

ERROR_KEY: Final = "headrace-error-bin"
"""Trailing metadata of a refused call: name of the error's class, line feed, its sentence, in UTF-8."""

_SENTENCE_BYTES_MAX: Final = 2048
"""Clients take 8 KiB of metadata from a server."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One meaning of one status of a call."""

    status: str
    error: type[HeadraceError]
    sentence: str
    """What a client says that is not told more. Ends without a full stop."""
    raised: bool = True
    """Whether handlers of our controller raise ``error`` and leave the status to this table."""


@dataclass(frozen=True, slots=True)
class Statuses:
    """The statuses of one call. Those of ``answers`` are no refusals."""

    reply: type[Any]
    field: str
    answers: tuple[str, ...]
    refusals: tuple[Refusal, ...]

    @property
    def enum(self) -> Any:
        """The descriptor of the enumeration."""
        return self.reply.DESCRIPTOR.fields_by_name[self.field].enum_type


_R = Refusal
_FAILED: Final = Refusal(
    "FAILURE",
    errors.ControllerFailureError,
    "the controller failed: what it had begun may still happen",
    False,
)
_INTERNAL: Final = Refusal("INTERNAL_ERROR", _FAILED.error, _FAILED.sentence, False)
_UNKNOWN: Final = Refusal("UNKNOWN", _FAILED.error, "the controller gave an answer that is none", False)
_NO_SCOPE: Final = Refusal("SCOPE_NOT_FOUND", errors.NoSuchScopeError, "the scope does not exist")
_NO_STREAM: Final = Refusal("STREAM_NOT_FOUND", errors.NoSuchStreamError, "the stream does not exist")
_SCOPE_OF_STREAM: Final = Refusal(
    "SCOPE_NOT_FOUND", errors.NoSuchScopeError, "the scope does not exist", False
)
_SEALED: Final = Refusal("STREAM_SEALED", errors.StreamSealedError, "the stream is sealed")
_BUSY: Final = Refusal(
    "FAILURE", errors.StreamBusyError, "another change of it is in progress: try again soon"
)
_NO_TABLE: Final = Refusal(
    "TABLE_NOT_FOUND", errors.NoSuchKeyValueTableError, "the key-value table does not exist"
)
_NO_GROUP: Final = Refusal("RG_NOT_FOUND", errors.NoSuchReaderGroupError, "the reader group does not exist")
_FAILED_NO_STREAM: Final = Refusal("FAILURE", errors.NoSuchStreamError, "the stream does not exist")
_FAILED_ARGUMENT: Final = Refusal("FAILURE", errors.InvalidArgumentError, "an argument is out of its range")


def _statuses(
    reply: type[Any], *refusals: Refusal, field: str = "status", answers: tuple[str, ...] = ("SUCCESS",)
) -> Statuses:
    return Statuses(reply, field, answers, refusals)


_DECISION: Final = _statuses(
    pb.TxnStatus,
    _R("FAILURE", errors.TransactionStateError, "the transaction was decided otherwise"),
    _NO_STREAM,
    _R("TRANSACTION_NOT_FOUND", errors.NoSuchTransactionError, "the transaction is unknown or was aborted"),
)
_LISTING: Final = _statuses(pb.StreamsInScopeResponse, _NO_SCOPE, _FAILED)
_SCOPE_DELETION: Final = _statuses(
    pb.DeleteScopeStatus,
    _NO_SCOPE,
    _R("SCOPE_NOT_EMPTY", errors.ScopeNotEmptyError, "the scope is not empty"),
    _FAILED,
)

STATUSES: Final[Mapping[str, Statuses]] = {
    "createScope": _statuses(
        pb.CreateScopeStatus,
        _R("SCOPE_EXISTS", errors.ScopeExistsError, "the scope exists already"),
        _R("INVALID_SCOPE_NAME", errors.InvalidNameError, "no scope can have this name"),
        _FAILED,
    ),
    "deleteScope": _SCOPE_DELETION,
    "deleteScopeRecursive": _statuses(pb.DeleteScopeStatus, *_SCOPE_DELETION.refusals, _FAILED_ARGUMENT),
    "createStream": _statuses(
        pb.CreateStreamStatus,
        _R("STREAM_EXISTS", errors.StreamExistsError, "the stream exists already"),
        _NO_SCOPE,
        _R("INVALID_STREAM_NAME", errors.InvalidNameError, "no stream can have this name"),
        _FAILED,
    ),
    "updateStream": _statuses(pb.UpdateStreamStatus, _NO_STREAM, _SCOPE_OF_STREAM, _SEALED, _FAILED, _BUSY),
    "truncateStream": _statuses(
        pb.UpdateStreamStatus, _NO_STREAM, _SCOPE_OF_STREAM, _SEALED, _FAILED, _BUSY, _FAILED_ARGUMENT
    ),
    "sealStream": _statuses(
        pb.UpdateStreamStatus,
        _NO_STREAM,
        _SCOPE_OF_STREAM,
        _R("STREAM_SEALED", errors.StreamSealedError, "the stream is sealed", raised=False),
        _FAILED,
    ),
    "deleteStream": _statuses(
        pb.DeleteStreamStatus,
        _NO_STREAM,
        _R("STREAM_NOT_SEALED", errors.StreamNotSealedError, "the stream is not sealed: seal it first"),
        _FAILED,
    ),
    "listStreamsInScope": _LISTING,
    "listStreamsInScopeForTag": _LISTING,
    "scale": _statuses(
        pb.ScaleResponse,
        _FAILED,
        _FAILED_NO_STREAM,
        _R("FAILURE", errors.StreamSealedError, "the stream is sealed"),
        _BUSY,
        _FAILED_ARGUMENT,
        _R(
            "PRECONDITION_FAILED",
            errors.PreconditionError,
            "a segment to seal is not active, or fewer segments than the policy asks for would be left",
        ),
        answers=("STARTED",),
    ),
    "checkScale": _statuses(
        pb.ScaleStatusResponse,
        _R("INVALID_INPUT", errors.NoSuchStreamError, "the stream does not exist"),
        _R("INVALID_INPUT", errors.InvalidArgumentError, "the stream has not had this stream epoch"),
        _INTERNAL,
        answers=("IN_PROGRESS", "SUCCESS"),
    ),
    "commitTransaction": _DECISION,
    "abortTransaction": _DECISION,
    "pingTransaction": _statuses(
        pb.PingTxnStatus,
        _R(
            "LEASE_TOO_LARGE",
            errors.InvalidArgumentError,
            "the lease is longer than the server allows",
            False,
        ),
        _R(
            "MAX_EXECUTION_TIME_EXCEEDED",
            errors.TransactionStateError,
            "the transaction would outlive the greatest age of one: commit it within its lease",
            False,
        ),
        _R(
            "SCALE_GRACE_TIME_EXCEEDED",
            errors.TransactionStateError,
            "the stream was scaled too long ago",
            False,
        ),
        _R(
            "DISCONNECTED",
            errors.UnreachableError,
            "the controller tracks no leases now: ask another one",
            False,
        ),
        answers=("OK", "COMMITTED", "ABORTED", "UNKNOWN"),
    ),
    "checkTransactionState": _statuses(
        pb.TxnState,
        field="state",
        answers=("UNKNOWN", "OPEN", "COMMITTING", "COMMITTED", "ABORTING", "ABORTED"),
    ),
    "noteTimestampFromWriter": _statuses(
        pb.TimestampResponse,
        _R("INVALID_TIME", errors.PreconditionError, "the writer has noted a later time", False),
        _R("INVALID_POSITION", errors.PreconditionError, "the writer has noted a later position", False),
        _INTERNAL,
        field="result",
    ),
    "removeWriter": _statuses(
        pb.RemoveWriterResponse,
        _R("UNKNOWN_WRITER", errors.InvalidArgumentError, "the writer has noted no time", False),
        _R("STREAM_DOES_NOT_EXIST", errors.NoSuchStreamError, "the stream does not exist"),
        _INTERNAL,
        field="result",
    ),
    "createKeyValueTable": _statuses(
        pb.CreateKeyValueTableStatus,
        _R("TABLE_EXISTS", errors.KeyValueTableExistsError, "the key-value table exists already"),
        _NO_SCOPE,
        _R("INVALID_TABLE_NAME", errors.InvalidNameError, "no key-value table can have this name"),
        _FAILED,
    ),
    "listKeyValueTablesInScope": _statuses(pb.KVTablesInScopeResponse, _NO_SCOPE, _FAILED),
    "getKeyValueTableConfiguration": _statuses(pb.KeyValueTableConfigResponse, _NO_TABLE, _FAILED),
    "deleteKeyValueTable": _statuses(pb.DeleteKVTableStatus, _NO_TABLE, _FAILED),
    "createReaderGroup": _statuses(
        pb.CreateReaderGroupResponse,
        _NO_SCOPE,
        _R("INVALID_RG_NAME", errors.InvalidNameError, "no reader group can have this name"),
        _FAILED,
        _FAILED_NO_STREAM,
    ),
    "getReaderGroupConfig": _statuses(pb.ReaderGroupConfigResponse, _NO_GROUP, _FAILED),
    "updateReaderGroup": _statuses(
        pb.UpdateReaderGroupResponse,
        _NO_GROUP,
        _R("INVALID_CONFIG", errors.PreconditionError, "the reader group has another id or generation"),
        _FAILED,
        _BUSY,
        _FAILED_NO_STREAM,
    ),
    "deleteReaderGroup": _statuses(pb.DeleteReaderGroupStatus, _NO_GROUP, _FAILED),
    "listSubscribers": _statuses(pb.SubscribersResponse, _NO_STREAM, _FAILED),
    "updateSubscriberStreamCut": _statuses(
        pb.UpdateSubscriberStatus,
        _NO_STREAM,
        _R("SUBSCRIBER_NOT_FOUND", errors.NoSuchReaderGroupError, "the reader group is no subscriber"),
        _R(
            "STREAM_CUT_NOT_VALID",
            errors.InvalidArgumentError,
            "the cut is invalid or in front of the last one",
        ),
        _R("GENERATION_MISMATCH", errors.PreconditionError, "the reader group is of another generation"),
        _FAILED,
    ),
    "createTaggedTransaction": _statuses(
        batch_pb.CreateTaggedTransactionResponse, _UNKNOWN, answers=("CREATED", "ALREADY")
    ),
    "commitTransactionBatch": _statuses(
        batch_pb.CommitTransactionBatchResponse,
        _UNKNOWN,
        answers=("COMMITTED", "ALREADY", "FOREIGN", "MISSING"),
    ),
}
"""Every call whose reply has a status, by its name in the protocol."""

_LISTED: Final = {pb.StreamsInScopeResponse, pb.KVTablesInScopeResponse}


def refusing_reply(method: str, error: HeadraceError) -> Any | None:
    """Return the reply with which ``method`` refuses for ``error``; None: it has no status for it."""
    statuses = STATUSES.get(method)
    if statuses is None:
        return None
    raised = {each.error: each.status for each in statuses.refusals if each.raised}
    status = next((raised[kind] for kind in type(error).__mro__ if kind in raised), None)
    if status is None:
        return None
    reply = statuses.reply(**{statuses.field: statuses.enum.values_by_name[status].number})
    if statuses.reply in _LISTED:
        reply.continuationToken.SetInParent()  # some clients take a listing without a token as garbage
    return reply


def refusal_of(method: str, reply: Any, metadata: Iterable[Any]) -> HeadraceError | None:
    """Return the error that ``reply`` stands for; None: it is an answer."""
    statuses = STATUSES.get(method)
    if statuses is None:
        return None
    number = getattr(reply, statuses.field)
    value = statuses.enum.values_by_number.get(number)
    if value is not None and value.name in statuses.answers:
        return None
    told = told_error(metadata)
    if told is not None:
        return told
    for refusal in statuses.refusals:
        if value is not None and refusal.status == value.name:
            return refusal.error(f"{method}: {refusal.sentence}")
    return errors.ControllerFailureError(f"{method}: the controller answered {number}, which is unknown here")


def tell_error(error: HeadraceError) -> tuple[str, bytes]:
    """Return the trailing metadata that says which error it was."""
    text = f"{type(error).__name__}\n{error}".encode(errors="replace")
    return ERROR_KEY, text[:_SENTENCE_BYTES_MAX]


def told_error(metadata: Iterable[Any]) -> HeadraceError | None:
    """Return the error that a controller of ours has put into trailing metadata; a more general one if it
    cannot be made of its sentence alone.
    """
    for key, value in metadata:
        if key == ERROR_KEY and isinstance(value, bytes):
            name, _, sentence = value.decode(errors="replace").partition("\n")
            kind = vars(errors).get(name)
            if isinstance(kind, type) and issubclass(kind, HeadraceError):
                return _make(kind, sentence)
    return None


def _make(kind: type[HeadraceError], sentence: str) -> HeadraceError:
    if issubclass(kind, errors.ClosedError):
        return errors.UnreachableError(sentence)  # it is the controller that stops, not the client
    if issubclass(kind, errors.SegmentError) and "__init__" not in vars(kind):
        return kind("", sentence)
    while "__init__" in vars(kind) or issubclass(kind, errors.SegmentError):
        kind = kind.__bases__[0]  # it carries more than a sentence
    return kind(sentence)
