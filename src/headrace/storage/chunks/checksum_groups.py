"""A few decoded rows of checksums: one row covers 256 blocks, so a sequential reader needs the same one many
times.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.storage.metadata.rows import checksum_key, decode_checksum_row

GROUPS_MAX: Final = 64


class ChecksumGroups:
    """Rows of full groups, which never change: chunks are only appended to, and their names are unique."""

    __slots__ = ("_get", "_groups")

    def __init__(self, get: Callable[[str], bytes | None]) -> None:
        self._get = get
        self._groups: OrderedDict[tuple[str, int], array[int]] = OrderedDict()

    def find(self, chunk: str, group: int) -> array[int]:
        """Return the checksums of a full group of ``chunk``; not to be changed.

        Raises:
            DataCorruptionError: the row is missing or damaged.
        """
        key = chunk, group
        checksums = self._groups.get(key)
        if checksums is not None:
            self._groups.move_to_end(key)
            return checksums
        row_key = checksum_key(chunk, group)
        data = self._get(row_key)
        if data is None:
            raise DataCorruptionError(f"row {row_key!r} is missing")
        checksums = self._groups[key] = decode_checksum_row(data, row_key)
        if len(self._groups) > GROUPS_MAX:
            self._groups.popitem(last=False)
        return checksums
