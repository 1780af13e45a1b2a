"""One table from errors to gRPC status codes, so that every answer says whether its caller should retry.

Clients of the protocol stop at INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
OUT_OF_RANGE and UNIMPLEMENTED, and repeat after everything else; permanent refusals therefore use the
former. Source: protocol, status codes and retry classification.
"""

from __future__ import annotations

from typing import Final

import grpc

from headrace import errors

FAMILY_STATUS: Final[dict[type[errors.HeadraceError], grpc.StatusCode]] = {
    errors.RequestError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.OwnershipError: grpc.StatusCode.ABORTED,
    errors.OverloadError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.UnknownOutcomeError: grpc.StatusCode.UNAVAILABLE,
    errors.CorruptionError: grpc.StatusCode.DATA_LOSS,
}

LEAF_STATUS: Final[dict[type[errors.HeadraceError], grpc.StatusCode]] = {
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.AccessDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.NoSuchScopeError: grpc.StatusCode.NOT_FOUND,
    errors.NoSuchStreamError: grpc.StatusCode.NOT_FOUND,
    errors.NoSuchSegmentError: grpc.StatusCode.NOT_FOUND,
    errors.NoSuchTransactionError: grpc.StatusCode.NOT_FOUND,
    errors.NoSuchTableError: grpc.StatusCode.NOT_FOUND,
    errors.NoSuchReaderGroupError: grpc.StatusCode.NOT_FOUND,
    errors.NoSuchKeyValueTableError: grpc.StatusCode.NOT_FOUND,
    errors.KeyValueTableExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.ScopeExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.StreamExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.SegmentExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.ScopeNotEmptyError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.PreconditionError: grpc.StatusCode.FAILED_PRECONDITION,
    # What the state of a stream forbids stays forbidden: a code that clients take as final.
    errors.StreamSealedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.StreamNotSealedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.TransactionStateError: grpc.StatusCode.PERMISSION_DENIED,
    errors.UnsupportedError: grpc.StatusCode.UNIMPLEMENTED,
    errors.MetadataConflictError: grpc.StatusCode.ABORTED,
    errors.DeadlineExceededError: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def status_of(error: errors.HeadraceError) -> grpc.StatusCode:
    """Return the code of the most specific class of ``error`` that has one."""
    for kind in type(error).__mro__:
        if kind in LEAF_STATUS:
            return LEAF_STATUS[kind]
        if kind in FAMILY_STATUS:
            return FAMILY_STATUS[kind]
    return grpc.StatusCode.INTERNAL
