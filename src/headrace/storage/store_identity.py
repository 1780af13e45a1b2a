"""Reads and makes the object that says whose a store is."""

from __future__ import annotations

from typing import Final

from headrace.errors import ChunkExistsError, DataCorruptionError, NoSuchChunkError, StorageWriteError
from headrace.storage.identity_format import (
    IDENTITY_BYTES,
    IDENTITY_NAME,
    decode_identity,
    encode_identity,
    judge_identity,
)
from headrace.storage.providers.contract import ChunkProvider

_BYTES_MAX: Final = 4096
"""Read of an identity of a newer version."""

_ATTEMPTS: Final = 3


async def read_identity(provider: ChunkProvider) -> str | None:
    """Return the system whose store this is; None if it has no identity.

    Raises:
        DataCorruptionError: it is damaged.
        InvalidArgumentError: it is of a newer version.
        StorageReadError: the store did not answer.
    """
    try:
        found = await provider.info(IDENTITY_NAME)
        data = await provider.read(IDENTITY_NAME, 0, min(found.length, _BYTES_MAX))
    except NoSuchChunkError:
        return None
    return decode_identity(bytes(data))


async def find_identity(provider: ChunkProvider) -> str | None:
    """Return the system whose store this is; None also if the identity was cut short, as a process that died
    while it made it leaves it.

    Raises as :func:`read_identity`.
    """
    try:
        return await read_identity(provider)
    except DataCorruptionError:
        if (await provider.info(IDENTITY_NAME)).length < IDENTITY_BYTES:
            return None
    return await read_identity(provider)  # again: another server may have been about to write it


async def make_identity(provider: ChunkProvider, system: str) -> str:
    """Make the identity of a store that has none, in place of one that was cut short.

    Returns:
        The system whose store it is: another server may have been faster.

    Raises:
        StorageFullError, StorageReadError, StorageWriteError: the store did not answer; repeat.
    """
    for _ in range(_ATTEMPTS):
        try:
            await provider.create(IDENTITY_NAME, [encode_identity(system)])
        except ChunkExistsError:  # of another server, or of an attempt whose answer was lost
            found = await find_identity(provider)
            if found is not None:
                return found
            await provider.delete(IDENTITY_NAME)
        else:
            return system
    raise StorageWriteError("the identity of the store comes and goes: does another server start in it?")


async def look_identity(
    provider: ChunkProvider, where: str, system: str, advice: str = "", *, is_new: bool, adopts: bool = False
) -> bool:
    """Whether a server of ``system`` has to make the identity of this store; nothing is written.

    Raises:
        InvalidArgumentError, DataCorruptionError: it is another's, see :func:`judge_identity`.
        StorageReadError: the store did not answer; repeat.
    """
    found = await find_identity(provider)
    looks = found is None and is_new and not adopts
    other = await find_other(provider) if looks else ""
    return judge_identity(where, found, system, advice, is_new=is_new, adopts=adopts, other=other)


async def claim_identity(
    provider: ChunkProvider, where: str, system: str, advice: str = "", *, is_new: bool, adopts: bool = False
) -> None:
    """See to it that the store is that of ``system``; make its identity in an empty one, if the data
    directory is new, or in any with ``adopts``.

    Raises:
        InvalidArgumentError, DataCorruptionError: it is not, see :func:`judge_identity`.
        StorageFullError, StorageReadError, StorageWriteError: the store did not answer; repeat.
    """
    if await look_identity(provider, where, system, advice, is_new=is_new, adopts=adopts):
        found = await make_identity(provider, system)
        judge_identity(where, found, system, advice, is_new=True, adopts=False, other="")


async def find_other(provider: ChunkProvider) -> str:
    """Return an object of a store that is none of the system's own beside the chunks; "" if there is none."""
    async for page in provider.list():
        for found in page:
            if not found.name.startswith("_system/") or found.name.startswith("_system/containers/"):
                return found.name
    return ""
