"""The bytes of one record of the file log, so that a torn, foreign or recycled record is never taken for a
living one.

Format page: ``docs/formats/wal-record.md``. Integers are big-endian. A record starts on a 4096-byte boundary:

======  ====  ==============  ===================================================================
offset  size  field           meaning
======  ====  ==============  ===================================================================
0       4     magic           ``HRWR``
4       4     crc             crc32c of bytes 8 up to the end of the content
8       1     version         1
9       1     kind            1 data; 2 close mark (no content, takes no sequence)
10      2     reserved        0
12      4     length          bytes of content
16      8     epoch           container epoch of the owner that wrote it
24      8     file            number of the file it was written into: a recycled file has older ones
32      8     sequence        number in the log, from 1, without gaps
40      8     durable         highest sequence known to be durable when this was written, below ``sequence``
48      8     file_first      sequence of the first record of its file
56      8     log             first half of the log's id: another log has another
64      ..    content         ``length`` bytes, then zeros up to the next boundary
======  ====  ==============  ===================================================================

Every record at or below the ``durable`` of a later whole record was acknowledged or about to be: if it is
damaged, that is corruption. A damaged record above all of them is a torn tail: it was in flight.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.limits import KIB, MIB
from headrace.runtime.checksums import release_mode
from headrace.wal.config import BLOCK_BYTES

MAGIC: Final = b"HRWR"
VERSION: Final = 1
KIND_DATA: Final = 1
KIND_CLOSE: Final = 2
RECORD_HEADER_BYTES: Final = 64
RECORD_CONTENT_BYTES_MAX: Final = 64 * MIB

#: Sequences start here; an address of the file log is a sequence.
FIRST_SEQUENCE: Final = 1

_HEADER: Final = struct.Struct(">4sIBBHIQQQQQQ")
_WORD_BYTES: Final = 4
_MAGIC_WORD: Final = int.from_bytes(MAGIC, sys.byteorder)
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 4
_CRC_FROM: Final = 8
_ZEROS: Final = bytes(BLOCK_BYTES)
_HOLD_GIL_BYTES_MAX: Final = 256 * KIB

assert _HEADER.size == RECORD_HEADER_BYTES


class RecordHeader(NamedTuple):
    """The fields of a header in the order of the table; ``magic`` and ``reserved`` are only checked."""

    crc: int
    kind: int
    length: int
    epoch: int
    """Container epoch."""
    file_number: int
    sequence: int
    durable_sequence: int
    file_first_sequence: int
    log: int


def find_headers(window: memoryview) -> Iterator[tuple[int, RecordHeader]]:
    """Yield offset and header of every block of ``window`` that begins like a record. It starts on a block.

    Looks at one word of each block, so what is empty costs next to nothing: most of a new file is.
    """
    words = window[: len(window) & -_WORD_BYTES].cast("I")[:: BLOCK_BYTES // _WORD_BYTES].tolist()
    for block, word in enumerate(words):
        if word == _MAGIC_WORD and (header := decode_header(window, block * BLOCK_BYTES)) is not None:
            yield block * BLOCK_BYTES, header


def padded_bytes(length: int) -> int:
    """Return the space that a record with ``length`` bytes of content takes on disk."""
    return (RECORD_HEADER_BYTES + length + BLOCK_BYTES - 1) & -BLOCK_BYTES


def encode_header(
    buffer: memoryview,
    *,
    kind: int,
    length: int,
    epoch: int,
    file_number: int,
    sequence: int,
    durable_sequence: int,
    file_first_sequence: int,
    log: int,
) -> None:
    """Write the header in front of the content that lies in ``buffer[64:64 + length]``, and the padding
    behind.

    The checksum is left open: ``seal_record`` fills it in, in a thread.
    """
    assert durable_sequence < sequence
    assert file_first_sequence <= sequence
    _HEADER.pack_into(
        buffer,
        0,
        MAGIC,
        0,
        VERSION,
        kind,
        0,
        length,
        epoch,
        file_number,
        sequence,
        durable_sequence,
        file_first_sequence,
        log,
    )
    end = RECORD_HEADER_BYTES + length
    rest = -end % BLOCK_BYTES
    buffer[end : end + rest] = _ZEROS[:rest]


def seal_record(buffer: memoryview, length: int) -> None:
    """Compute the checksum over header and content and store it. Releases the GIL for large records only.

    Getting the GIL back from a busy loop can take milliseconds, the sum over 256 KiB takes a dozen
    microseconds.
    """
    release = release_mode(length, _HOLD_GIL_BYTES_MAX)
    _CRC.pack_into(buffer, _CRC_AT, crc32c(buffer[_CRC_FROM : RECORD_HEADER_BYTES + length], 0, release))


def decode_header(buffer: memoryview, offset: int = 0) -> RecordHeader | None:
    """Return the header at ``offset`` if it looks like one; its checksum is not verified."""
    if len(buffer) - offset < RECORD_HEADER_BYTES:
        return None
    magic, crc, version, kind, reserved, length, epoch, file_number, sequence, durable, first, log = (
        _HEADER.unpack_from(buffer, offset)
    )
    if magic != MAGIC or version != VERSION or reserved != 0 or kind not in {KIND_DATA, KIND_CLOSE}:
        return None
    if length > RECORD_CONTENT_BYTES_MAX:
        return None
    return RecordHeader(crc, kind, length, epoch, file_number, sequence, durable, first, log)


def is_whole(buffer: memoryview, offset: int, header: RecordHeader) -> bool:
    """Say whether the record at ``offset`` lies in ``buffer`` entirely and matches its checksum."""
    end = offset + RECORD_HEADER_BYTES + header.length
    return end <= len(buffer) and crc32c(buffer[offset + _CRC_FROM : end]) == header.crc
