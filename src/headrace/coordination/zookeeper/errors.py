"""What an error of kazoo means to a caller."""

from __future__ import annotations

import kazoo.exceptions as kazoo

from headrace.errors import (
    ConnectionLostError,
    HeadraceError,
    InvalidArgumentError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    PermissionDeniedError,
    SessionExpiredError,
)


def to_error(error: BaseException, path: str) -> HeadraceError:
    """Return the error for a caller; what is not known is an unknown outcome."""
    match error:
        case kazoo.NodeExistsError():
            return NodeExistsError(f"node {path} exists")
        case kazoo.NoNodeError():
            return NoSuchNodeError(f"there is no node {path}")
        case kazoo.BadVersionError():
            return MetadataConflictError(f"node {path} has another version")
        case kazoo.NotEmptyError():
            return MetadataConflictError(f"there are nodes below {path}")
        case kazoo.NoChildrenForEphemeralsError():
            return InvalidArgumentError(f"the parent of {path} is ephemeral: no node is made below it")
        case kazoo.NoAuthError():
            return PermissionDeniedError(
                f"ZooKeeper does not let this identity use {path}: look at digest_file and at the ACL there"
            )
        case kazoo.SessionExpiredError() | kazoo.AuthFailedError():
            return SessionExpiredError("the session with ZooKeeper is over")
        case kazoo.ConnectionLoss() | kazoo.SessionMovedError():
            return ConnectionLostError("the connection with ZooKeeper broke before the answer")
        case _:
            return ConnectionLostError(f"ZooKeeper failed: {error!r}")


def is_over(error: BaseException) -> bool:
    """Whether the session has ended."""
    return isinstance(error, kazoo.SessionExpiredError | kazoo.AuthFailedError)


def is_answer(error: BaseException) -> bool:
    """Whether a server said so, having looked at the nodes."""
    return isinstance(
        error,
        kazoo.NodeExistsError
        | kazoo.NoNodeError
        | kazoo.BadVersionError
        | kazoo.NotEmptyError
        | kazoo.NoChildrenForEphemeralsError,
    )
