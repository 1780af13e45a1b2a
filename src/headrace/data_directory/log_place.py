"""Where the logs of a data directory are: in it, or in a bucket that outlives the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from headrace.data_directory.record import FILE_NAME, recorded_log
from headrace.errors import (
    DataCorruptionError,
    InvalidArgumentError,
    PreconditionError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
    UnsupportedError,
    WalWriteError,
)
from headrace.runtime.blocking import start_thread
from headrace.runtime.context import Runtime
from headrace.runtime.filesystem import Filesystem
from headrace.storage.providers.location import OBJECT_SCHEMES, StorageLocation
from headrace.storage.providers.objects.object_store import ObjectStoreConfig
from headrace.storage.providers.stores import make_provider, prove_store
from headrace.wal.stores import LogBucket, LogSystem, find_logs

T = TypeVar("T")

_REQUESTS: Final = ObjectStoreConfig(writes=64, reads=32, chores=32)
"""Of the logs of all containers at the same time."""


def parse_log(uri: str) -> StorageLocation:
    """Return the place of logs that a URI names.

    Raises:
        InvalidArgumentError: it is none of a bucket.
    """
    location = StorageLocation.parse(uri)
    if location.scheme not in OBJECT_SCHEMES:
        raise InvalidArgumentError(
            f"{location} cannot have the log: name a bucket (s3://, gs://, az://), or leave the option out; "
            "then the log is in the data directory"
        )
    return location


def bucket_of(uri: str, runtime: Runtime) -> LogBucket | None:
    """Return the bucket of the logs; None if they are in the data directory: the URI is "".

    Raises:
        InvalidArgumentError: it is none of a bucket.
    """
    if not uri:
        return None
    location = parse_log(uri)
    return LogBucket(str(location), lambda: make_provider(location, runtime, objects=_REQUESTS))


def choose_log(chosen: str | None, files: Filesystem, directory: str, *, has_data: bool) -> str:
    """Return the URI of the logs, "" for the data directory: as chosen, or as recorded.

    Raises:
        InvalidArgumentError: the directory was made with another one.
    """
    recorded = recorded_log(files, directory)
    if chosen is None:
        return recorded
    uri = str(parse_log(chosen))
    if has_data and uri != recorded:
        raise InvalidArgumentError(
            f"the log of {directory} is in {recorded or 'it'}, not in {uri}, and nothing was changed: leave "
            "out the option that names its log, or name another data directory"
        )
    return uri


def find_log_system(bucket: LogBucket) -> LogSystem | None:
    """Return whose logs are in a bucket.

    Raises:
        DataCorruptionError: that is damaged.
        PreconditionError: the store does not answer.
    """
    return _asked(bucket, bucket.find_system)


def claim_log(bucket: LogBucket, system: str, containers: int, directory: str, runtime: Runtime) -> None:
    """See to it that a bucket is fit to have logs, and has those of this system. Waits for it.

    Raises:
        UnsupportedError: it lets objects be overwritten.
        InvalidArgumentError: its logs are another system's.
        DataCorruptionError: it has logs, and does not say whose.
        PreconditionError: the store does not answer.
    """
    wanted = LogSystem(system, containers)
    found = _asked(bucket, bucket.find_system)
    if found is None:
        numbers = _asked(bucket, find_logs(directory, runtime.filesystem, bucket).numbers)
        if numbers:
            raise DataCorruptionError(
                f"there is a log of container {numbers[0]}, and the object that says whose it is is missing",
                path=bucket.place,
            )
        _asked(bucket, lambda: _prove(bucket, runtime))
        found = _asked(bucket, lambda: bucket.claim_system(wanted))
    if found != wanted:
        raise InvalidArgumentError(
            f"{bucket.place} has the logs of another system ({found.system} with {found.containers} "
            f"containers), not those that {directory}/{FILE_NAME} names ({system} with {containers}), and "
            "nothing was changed: use another prefix"
        )


def _asked(bucket: LogBucket, call: Callable[[], T]) -> T:
    try:
        return call()
    except (WalWriteError, StorageFullError, StorageReadError, StorageWriteError, OSError) as error:
        raise PreconditionError(
            f"the log has to be reached before a start, so nothing was started: {bucket.place}: {error}"
        ) from error


def _prove(bucket: LogBucket, runtime: Runtime) -> None:
    errors: list[Exception] = []

    async def prove() -> None:
        provider = make_provider(parse_log(bucket.place), runtime, objects=_REQUESTS)
        try:
            await prove_store(provider, runtime.entropy)
        finally:
            await provider.close()

    def run() -> None:
        try:
            asyncio.run(prove())
        except (UnsupportedError, StorageFullError, StorageReadError, StorageWriteError) as error:
            errors.append(error)

    start_thread("log-proof", run).join()
    if errors:
        raise errors[0]
