"""Refuses a store that two owners could destroy each other's objects in.

Chunks are safe without locks because an object is created once: a store that takes the same name twice
overwrites what is there. Some servers of the S3 protocol ignore the header that asks for it
(``If-None-Match: *``), without an error.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from headrace.errors import ChunkExistsError, HeadraceError, UnsupportedError
from headrace.runtime.entropy import Entropy
from headrace.storage.providers.contract import CHUNK_NAME_BYTES_MAX, ChunkProvider

PROOF_PREFIX: Final = "_system/proof-"
"""Of the objects that a proof makes and deletes; one that was cut short leaves them: they are no chunks."""

_FIRST: Final = b"first"
_SECOND: Final = b"second, longer"


async def prove_store(provider: ChunkProvider, entropy: Entropy) -> None:
    """Create an object twice, read it and list it; then delete it: a dozen short requests.

    One of the two names is the longest there can be, since some stores encode such names apart.

    Raises:
        UnsupportedError: the store took the second, or lists or reads something else than was created.
        StorageFullError, StorageReadError, StorageWriteError: as the provider raises them; try again.
    """
    short = PROOF_PREFIX + entropy.token(12).hex()
    for name in (short, short.ljust(CHUNK_NAME_BYTES_MAX, "%")):
        try:
            await _prove_object(provider, name)
        finally:
            await _delete(provider, name)


async def _prove_object(provider: ChunkProvider, name: str) -> None:
    await provider.create(name, [_FIRST])
    try:
        await provider.create(name, [_SECOND])
    except ChunkExistsError:
        pass
    else:
        raise UnsupportedError(
            "this store lets an object be overwritten: it ignores If-None-Match, or what its protocol has "
            "for that. Two servers could destroy each other's data in it; use another or a newer one"
        )
    info = await provider.info(name)
    content = bytes(await provider.read(name, 0, len(_FIRST)))
    if info.length != len(_FIRST) or content != _FIRST:
        raise UnsupportedError("this store changed an object although it refused to create it a second time")
    listed = [found.name async for page in provider.list(name) for found in page]
    if listed != [name]:
        raise UnsupportedError(
            f"this store does not list an object that was created before ({len(listed)} found): garbage "
            "would stay for ever, and nothing could be rebuilt"
        )


async def _delete(provider: ChunkProvider, name: str) -> None:
    with suppress(HeadraceError):  # what the proof found out is more important than five bytes
        await provider.delete(name)
