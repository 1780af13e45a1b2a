"""Where the logs of a data directory are: in it, or in a place that outlives the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from headrace.data_directory.record import recorded_log
from headrace.errors import (
    DataCorruptionError,
    InvalidArgumentError,
    PreconditionError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
    WalWriteError,
)
from headrace.runtime.context import Runtime
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.location import OBJECT_SCHEMES, StorageLocation
from headrace.storage.providers.objects.object_store import ObjectStoreConfig
from headrace.storage.providers.stores import make_provider, prove_store
from headrace.wal.stores import (
    BookKeeperLocation,
    LogBucket,
    LogPlace,
    LogSystem,
    ObjectLogConfig,
    bookies_at,
)

T = TypeVar("T")

LogLocation = StorageLocation | BookKeeperLocation
"""What names a place of logs."""

_REQUESTS: Final = ObjectStoreConfig(writes=64, reads=32, chores=32)
"""Of the logs of all containers at the same time."""


def parse_log(uri: str) -> LogLocation:
    """Return the place of logs that a URI names.

    Raises:
        InvalidArgumentError: it is none of a bucket or of a BookKeeper.
    """
    if uri.partition(":")[0] == BookKeeperLocation.scheme:
        return BookKeeperLocation.parse(uri)
    location = StorageLocation.parse(uri)
    if location.scheme not in OBJECT_SCHEMES:
        raise InvalidArgumentError(
            f"{location} cannot have the log: name a bucket (s3://, gs://, az://) or a BookKeeper "
            "(bookkeeper://), or leave the option out; then the log is in the data directory"
        )
    return location


def place_of(uri: str, runtime: Runtime, objects: ObjectLogConfig | None = None) -> LogPlace | None:
    """Return the place of the logs; None if they are in the data directory: the URI is "". ``objects``: of a
    log in a bucket.

    Raises:
        InvalidArgumentError: it is none of a bucket or of a BookKeeper.
        UnsupportedError: a library is missing that it needs.
    """
    if not uri:
        return None
    location = parse_log(uri)
    if isinstance(location, BookKeeperLocation):
        return bookies_at(location, runtime)

    def make_store() -> ChunkProvider:
        return make_provider(location, runtime, objects=_REQUESTS)

    async def prove() -> None:
        store = make_store()
        try:
            await prove_store(store, runtime.entropy)
        finally:
            await store.close()

    return LogBucket(str(location), make_store, prove, objects)


def _is_same(one: LogLocation, recorded: str) -> bool:
    """Whether a place may be the recorded one. Whose logs it has is looked up there, too."""
    if str(one) == recorded:
        return True
    other = parse_log(recorded) if recorded else None
    return (
        isinstance(one, BookKeeperLocation) and isinstance(other, BookKeeperLocation) and one.is_beside(other)
    )


def choose_log(chosen: str | None, files: Filesystem, directory: str, *, has_data: bool) -> str:
    """Return the URI of the logs, "" for the data directory: as chosen, or as recorded.

    Raises:
        InvalidArgumentError: the directory was made with another one.
    """
    recorded = recorded_log(files, directory)
    if chosen is None:
        return recorded
    location = parse_log(chosen)
    uri = str(location)
    if has_data and not _is_same(location, recorded):
        raise InvalidArgumentError(
            f"the log of {directory} is in {recorded or 'it'}, not in {uri}, and nothing was changed: leave "
            "out the option that names its log, or name another data directory"
        )
    return uri


def find_log_system(place: LogPlace) -> LogSystem | None:
    """Return whose logs a place has.

    Raises:
        DataCorruptionError: that is damaged.
        PreconditionError: the place does not answer.
    """
    return _asked(place, place.find_logs().find_system)


def claim_log(place: LogPlace, system: str, containers: int) -> None:
    """See to it that a place is fit to have logs, and has those of this system. Waits for it.

    Raises:
        UnsupportedError: it is not fit: it is a bucket that lets objects be overwritten, or such.
        InvalidArgumentError: its logs are another system's, or there can be none.
        DataCorruptionError: it has logs, and does not say whose.
        PreconditionError: the place does not answer.
    """
    wanted, logs = LogSystem(system, containers), place.find_logs()
    if _asked(place, logs.find_system) is None:
        numbers = _asked(place, logs.numbers)
        if numbers:
            raise DataCorruptionError(
                f"there is a log of container {numbers[0]}, and what says whose it is is missing; "
                "a `headrace log copy` that was cut off has to be repeated",
                path=place.place,
            )
        prove_log(place)
    check_claim(place, wanted, claims=True)


def check_claim(place: LogPlace, wanted: LogSystem, *, claims: bool = False) -> None:
    """Refuse a place that has the logs of another system. ``claims``: it is that of ``wanted`` afterwards.

    Raises as :func:`claim_log`.
    """
    found = find_log_system(place)
    if found is None and claims:
        found = _asked(place, lambda: place.find_logs().claim_system(wanted))
    if found is not None and found != wanted:
        raise InvalidArgumentError(
            f"{place.place} has the logs of another system ({found.system} with {found.containers} "
            f"containers), not of {wanted.system} with {wanted.containers}, and nothing was changed: use "
            "another place, such as another prefix"
        )


def _asked(place: LogPlace, call: Callable[[], T]) -> T:
    try:
        return call()
    except (WalWriteError, StorageFullError, StorageReadError, StorageWriteError, OSError) as error:
        raise PreconditionError(
            f"the log has to be reached before a start, so nothing was started: {place.place}: {error}"
        ) from error


def prove_log(place: LogPlace) -> None:
    """Raises UnsupportedError, InvalidArgumentError: it is not fit. PreconditionError: it does not answer."""
    _asked(place, place.find_logs().prove)
