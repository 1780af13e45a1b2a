"""The requests of one bucket, by the library opendal; the only module that knows it.

Nothing is retried and nothing is timed out here.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.storage.providers.contract import Buffer
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.objects.errors import ObjectRequestError, is_library_error, read_failure
from headrace.storage.providers.objects.options import operator_options

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """What a store says about an object: its length in bytes, and what was written beside it."""

    length: int
    metadata: dict[str, str]


class ObjectOperator:
    """Every call raises ObjectRequestError, and nothing else, if the store or the network fails."""

    def __init__(self, location: StorageLocation) -> None:
        """Nothing is sent yet.

        Raises:
            UnsupportedError: the library is not installed.
            InvalidArgumentError: the location does not say enough: no region, or no account.
        """
        try:
            import opendal
        except ImportError:
            raise UnsupportedError(
                f"{location.scheme}:// needs the library opendal: pip install 'headrace[objects]'"
            ) from None
        self._library = opendal
        self._location = location
        self._operator: Any = None
        self.renew()

    def renew(self) -> None:
        """Forget the credentials that the library holds: the next call looks for them in their places, as the
        first one did. Calls in flight keep theirs.

        Raises:
            InvalidArgumentError: as the constructor.
        """
        service, options = operator_options(self._location, os.environ)
        try:
            self._operator = self._library.AsyncOperator(service, **options)
        except self._library.exceptions.ConfigInvalid as error:
            raise InvalidArgumentError(f"{self._location}: {read_failure(error).text}") from None

    def create(self, key: str, content: Buffer, metadata: dict[str, str]) -> Awaitable[None]:
        """Begin to create an object in one piece, unless there is one: threads of the library do it from now
        on. The content must not change until the end.
        """
        return self._translate(self._operator.write(key, content, if_not_exists=True, user_metadata=metadata))

    async def read(self, key: str, offset: int, length: int, piece: int, pieces: int) -> bytes:
        """Read a range, ``pieces`` requests of ``piece`` bytes at the same time if it is longer than one."""
        split = {"chunk": piece, "concurrent": pieces} if length > piece else {}
        data: bytes = await self._translate(self._operator.read(key, offset=offset, size=length, **split))
        return data

    async def look(self, key: str) -> ObjectHead:
        """Read length and metadata."""
        found = await self._translate(self._operator.stat(key))
        return ObjectHead(found.content_length, found.user_metadata or {})

    async def delete(self, key: str) -> None:
        """Delete an object; fine if there is none."""
        await self._translate(self._operator.delete(key))

    async def list(self, prefix: str, page: int | None = None) -> AsyncGenerator[tuple[str, int]]:
        """Iterate keys that begin so, with their lengths, in the order of the store; ``page`` of them at a
        time, None: as many as it likes.
        """
        try:
            async for entry in await self._operator.list(prefix, recursive=True, limit=page):
                yield entry.path, entry.metadata.content_length
        except Exception as error:  # noqa: BLE001 - what is not the library's is raised again
            raise _translate_error(error) from None

    async def _translate(self, request: Awaitable[T]) -> T:
        try:
            return await request
        except Exception as error:  # noqa: BLE001 - what is not the library's is raised again
            raise _translate_error(error) from None


def _translate_error(error: Exception) -> Exception:
    return ObjectRequestError(read_failure(error)) if is_library_error(error) else error
