"""Objects under their plain names, for exports: files below a directory, or objects of a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from headrace.errors import ChunkOffsetError, DataCorruptionError, InvalidArgumentError, NoSuchChunkError
from headrace.storage.providers.contract import Buffer, ChunkObject, ChunkProvider

T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class ExportPlace(Protocol):
    """Where exports are. Calls wait."""

    def names(self) -> Iterator[str]:
        """Yield the names of all objects."""

    def put(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Create an object, durably; what has this name is replaced."""

    def find_length(self, name: str) -> int | None:
        """Return the bytes of an object, None if there is none."""

    def read(self, name: str, offset: int, length: int) -> bytes | memoryview:
        """Return bytes of an object.

        Raises:
            DataCorruptionError: it does not exist, or is too short.
        """


class PlainFiles:
    """Files below ``root``, which is made with the first of them."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def names(self) -> Iterator[str]:
        for path in self._root.rglob("*"):
            if path.is_file():
                yield path.relative_to(self._root).as_posix()

    def put(self, name: str, buffers: Sequence[Buffer]) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.part")
        with temporary.open("wb") as file:
            file.writelines(buffers)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        self._sync(path.parent)

    def _sync(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def find_length(self, name: str) -> int | None:
        try:
            return self._path(name).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str, offset: int, length: int) -> bytes:
        path = self._path(name)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(length)
        except FileNotFoundError:
            raise DataCorruptionError("this file is missing", path=str(path)) from None
        if len(data) < length:
            raise DataCorruptionError(f"it ends at {offset + len(data)}", path=str(path))
        return data

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if any(part in {"", ".", ".."} or "\0" in part for part in parts):
            raise InvalidArgumentError(f"{name!r} cannot be a file name")
        return self._root.joinpath(*parts)


class StorePlace:
    """Objects of ``provider``, whose calls ``run`` performs, always on the same loop."""

    def __init__(self, provider: ChunkProvider, run: Run) -> None:
        self._provider = provider
        self._run = run

    def names(self) -> Iterator[str]:
        found: list[ChunkObject] = self._run(self._list())
        return (each.name for each in found)

    async def _list(self) -> list[ChunkObject]:
        return [each async for page in self._provider.list() for each in page]

    def put(self, name: str, buffers: Sequence[Buffer]) -> None:
        if self.find_length(name) is not None:
            self._run(self._provider.delete(name))
        self._run(self._provider.create(name, buffers))

    def find_length(self, name: str) -> int | None:
        try:
            found: ChunkObject = self._run(self._provider.info(name))
        except NoSuchChunkError:
            return None
        return found.length

    def read(self, name: str, offset: int, length: int) -> memoryview:
        try:
            data: memoryview = self._run(self._provider.read(name, offset, length))
        except (NoSuchChunkError, ChunkOffsetError) as error:
            raise DataCorruptionError(str(error), path=name) from error
        return data
