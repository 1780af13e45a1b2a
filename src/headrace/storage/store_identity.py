"""Reads and makes the object that says whose a store is."""

from __future__ import annotations

from headrace.errors import ChunkExistsError, DataCorruptionError, NoSuchChunkError
from headrace.storage.identity_format import (
    IDENTITY_BYTES,
    IDENTITY_NAME,
    decode_identity,
    encode_identity,
    judge_identity,
)
from headrace.storage.providers.contract import ChunkProvider

_BYTES_MAX = 4096
"""Read of an identity of a newer version."""


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


async def claim_identity(
    provider: ChunkProvider, where: str, system: str, *, is_new: bool, adopts: bool = False
) -> None:
    """See to it that the store is that of ``system``; make its identity in an empty one, if the data
    directory is new, or in any with ``adopts``.

    Raises:
        InvalidArgumentError, DataCorruptionError: it is not, see :func:`judge_identity`.
        StorageFullError, StorageReadError, StorageWriteError: the store did not answer; repeat.
    """
    try:
        found = await read_identity(provider)
    except DataCorruptionError:
        may_be_new = adopts or (is_new and not await find_other(provider))
        if not may_be_new or not await _is_cut_short(provider):
            raise
        await provider.delete(IDENTITY_NAME)  # of a first start that died while it made it
        found = None
    looks = found is None and is_new and not adopts
    other = await find_other(provider) if looks else ""
    if judge_identity(where, found, system, is_new=is_new, adopts=adopts, other=other):
        try:
            await provider.create(IDENTITY_NAME, [encode_identity(system)])
        except ChunkExistsError:  # another server was faster, or the answer of an earlier attempt was lost
            judge_identity(where, await read_identity(provider), system, is_new=True, adopts=False, other="")


async def find_other(provider: ChunkProvider) -> str:
    """Return an object of a store that is none of the system's own beside the chunks; "" if there is none."""
    async for page in provider.list():
        for found in page:
            if not found.name.startswith("_system/") or found.name.startswith("_system/containers/"):
                return found.name
    return ""


async def _is_cut_short(provider: ChunkProvider) -> bool:
    return (await provider.info(IDENTITY_NAME)).length < IDENTITY_BYTES
