"""What an error of the object store library says: did it happen, is it worth a repetition, what to do.

The library's errors have no fields: what kind an error is, is its class; the rest is in its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

_ERRORS: Final = "opendal.exceptions"
_PANIC: Final = "RustPanic"
_PANIC_HINT: Final = (
    "the library failed inside, as it does on machines without certificates of authorities: install "
    "ca-certificates, or name a file with some in SSL_CERT_FILE"
)
_TEXT_CHARS_MAX: Final = 300
_STATUS: Final = re.compile(r"status: (\d{3})")
_TEMPORARY: Final = frozenset({408, 409, 429, 500, 502, 503, 504})
"""Whatever the library thinks of them: it judges by store."""

_NOISE: Final = re.compile(
    r"^\s*(called|service|service_operation|path|written|listed|range):.*$"
    r"|(?<=status: \d{3}), version: .*$"
    r"|\(?(permanent|temporary)\)? (?=at )",
    re.MULTILINE,
)
"""What people who read a sentence know, or cannot use."""

_QUERY: Final = re.compile(r"\?\S+")
_FULL_CODES: Final = re.compile(r"QuotaExceeded|InsufficientStorage|StorageFull|InsufficientCapacity")
_TOO_LITTLE: Final = "too little data"
_NO_CREDENTIALS: Final = re.compile(
    r"failed to load signing credential|no valid credential|InvalidAccessKeyId|XAdminUserNotFound",
    re.IGNORECASE,
)
"""The last is a 404 of versitygw."""
_SKEWED: Final = re.compile(r"RequestTimeTooSkewed")
_EXPIRED: Final = re.compile(r"ExpiredToken|TokenRefreshRequired")
"""S3 answers the first with status 400."""

_DENIED: Final = re.compile(r"AccessDenied")
_NO_BUCKET: Final = re.compile(
    r"NoSuchBucket|ContainerNotFound|specified bucket does not exist", re.IGNORECASE
)


class FailureKind(Enum):
    """What a caller acts on."""

    EXISTS = "refused: an object of this key is there"
    ABSENT = "there is no such object"
    RANGE = "the range goes beyond the object"
    FULL = "refused: no space, or a quota"
    SKEWED = "refused: the clock of this machine is wrong"
    EXPIRED = "refused: the credentials have expired"
    DENIED = "refused: the credentials are right, and do not allow it"
    FORBIDDEN = "refused: no credentials, or not these; or the store does not say why"
    NO_BUCKET = "the bucket does not exist"
    UNKNOWN = "the request may have happened"


OF_CREDENTIALS: Final = frozenset({FailureKind.EXPIRED, FailureKind.DENIED, FailureKind.FORBIDDEN})
"""Other credentials may mend it."""

REFUSALS: Final = OF_CREDENTIALS | {FailureKind.SKEWED, FailureKind.NO_BUCKET}
"""Nothing happened, and nothing will until somebody acts."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One error of the library, read."""

    kind: FailureKind
    is_temporary: bool
    """The same request may succeed soon."""

    text: str
    """For people, without secrets: queries of URLs are left out."""


class ObjectRequestError(Exception):
    """A request to a store failed; it never leaves the provider."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def is_library_error(error: Exception) -> bool:
    """Whether the library raised it; its classes have no common base, and it may fail inside."""
    return type(error).__module__ == _ERRORS or type(error).__name__ == _PANIC


def read_failure(error: Exception) -> Failure:
    """Say what an error of the library means."""
    if type(error).__name__ == _PANIC:
        return Failure(FailureKind.UNKNOWN, False, f"{error} ({_PANIC_HINT})")
    name, text = type(error).__name__, str(error)
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    temporary = "(temporary)" in text.partition("\n")[0] or status in _TEMPORARY
    return Failure(_kind_of(name, status, text), temporary, _shorten(text))


def _kind_of(name: str, status: int, text: str) -> FailureKind:
    if _NO_BUCKET.search(text):
        return FailureKind.NO_BUCKET
    if status == 507 or _FULL_CODES.search(text):
        return FailureKind.FULL
    if name in {"ConditionNotMatch", "AlreadyExists"}:
        return FailureKind.EXISTS
    for pattern, kind in _REFUSED:
        if pattern.search(text):
            return kind
    if name == "PermissionDenied" or status in {401, 403} or _NO_CREDENTIALS.search(text):
        return FailureKind.FORBIDDEN
    if name == "NotFound":
        return FailureKind.ABSENT
    if name == "RangeNotSatisfied" or status == 416 or _TOO_LITTLE in text:
        return FailureKind.RANGE
    return FailureKind.UNKNOWN


_REFUSED: Final = (
    (_SKEWED, FailureKind.SKEWED),
    (_EXPIRED, FailureKind.EXPIRED),
    (_DENIED, FailureKind.DENIED),
)


def _shorten(text: str) -> str:
    text = _NOISE.sub("", _QUERY.sub("?...", text.partition("Backtrace:")[0]))
    return " ".join(text.replace("Context:", ";").replace("Source:", ";").split())[:_TEXT_CHARS_MAX]
