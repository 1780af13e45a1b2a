"""What a table stores with the root of its index.

======  ====  ==================================================================================
offset  size  field
======  ====  ==================================================================================
0       1     format version, 1
1       8     index end: every entry of the log below this offset is in the index
9       8     live bytes: the sizes of all entries that the index has, by their classes
======  ====  ==================================================================================

Integers are big-endian. The root of an index that was never written has an empty note.

Source: docs/formats/table-index.md.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import DataCorruptionError

NOTE_VERSION: Final = 1

_NOTE: Final = Struct(">BQQ")


class IndexNote(NamedTuple):
    """Lengths in bytes."""

    index_end: int
    live_bytes: int


def encode_note(note: IndexNote) -> bytes:
    return _NOTE.pack(NOTE_VERSION, note.index_end, note.live_bytes)


def decode_note(data: bytes, segment: str) -> IndexNote | None:
    """Return the note of an index; None of one that was never written.

    Raises:
        DataCorruptionError: these bytes are no note of a table.
    """
    if not data:
        return None
    if len(data) != _NOTE.size or data[0] != NOTE_VERSION:
        raise DataCorruptionError(
            f"the index has no note of a table: {len(data)} bytes, version {data[0]}", path=segment
        )
    _, index_end, live_bytes = _NOTE.unpack(data)
    return IndexNote(index_end, live_bytes)
