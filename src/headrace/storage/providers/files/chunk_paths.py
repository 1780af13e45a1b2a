"""Chunk names as file paths and back: any name is safe, the usual ones stay readable.

``demo/sensors/0.#epoch.0.E-1-O-0.5f3a`` lies in ``demo/sensors/0.#epoch.0.E-1-O-0.5f3a.chunk``.

1. The name is split at ``/``; each part is one directory, the last part is the file.
2. Bytes other than ASCII letters, digits and ``- _ . # =`` become ``%`` and two upper-case hex digits; a part
   that begins with ``.`` has that dot encoded too, so that ``.`` and ``..`` and hidden files cannot arise. An
   empty part becomes ``%empty``.
3. The file gets the suffix ``.chunk``. A directory whose name would end so has its last letter encoded;
   so has one in the root whose name would be ``PRESENT``, which is a file there.
4. A part longer than 200 characters is split into directories that end in ``%``. A rest that begins with
   ``.`` has that dot encoded as well.

Source: docs/formats/chunk-names.md.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

FILE_SUFFIX: Final = ".chunk"
PROOF: Final = "PRESENT"
"""A file in the root that is no chunk: while it is missing, so is the file system that holds the chunks."""
_EMPTY: Final = "%empty"
_PIECE_CHARS_MAX: Final = 200
"""File systems allow 255 bytes; the suffix and a ``%`` have to fit too."""

_PATHS_CACHED: Final = 2048
"""A chunk is written many times, and read many times."""

_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.#=")
_ENTRY: Final = re.compile(r"(?!\.)[A-Za-z0-9\-_.#=%]+")
_QUOTED: Final = [chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in range(256)]
_HEX: Final = re.compile(rb"%([0-9A-F]{2})")


@lru_cache(_PATHS_CACHED)
def encode_chunk_path(name: str) -> str:
    """Return the path of a chunk's file, relative to the root, with ``/`` between its parts."""
    parts = [_quote(part) for part in name.split("/")]
    directories = [_quote_last(part) if part.endswith(FILE_SUFFIX) else part for part in parts[:-1]]
    if directories and directories[0] == PROOF:
        directories[0] = _quote_last(PROOF)
    pieces: list[str] = []
    for part in (*directories, parts[-1]):
        while len(part) > _PIECE_CHARS_MAX:
            pieces.append(part[:_PIECE_CHARS_MAX] + "%")
            part = _quote_dot(part[_PIECE_CHARS_MAX:])
        pieces.append(part)
    pieces[-1] += FILE_SUFFIX
    return "/".join(pieces)


def decode_chunk_path(path: str) -> str | None:
    """Return the chunk name of a relative path, or None if no chunk lies there."""
    if not path.endswith(FILE_SUFFIX):
        return None
    joined = path[: -len(FILE_SUFFIX)].replace("%/", "")
    try:
        name = "/".join(_unquote(part) for part in joined.split("/"))
    except ValueError:
        return None
    return name if encode_chunk_path(name) == path else None


def is_chunk_entry(name: str) -> bool:
    """Whether a directory entry of this name can be a chunk, or have one below it.

    ``lost+found`` of a mounted volume cannot, and only root may look into it.
    """
    return _ENTRY.fullmatch(name) is not None


def encode_prefix(prefix: str) -> str:
    """Return a text with which the path of every chunk begins whose name begins with ``prefix``.

    Paths of other chunks may begin with it as well.
    """
    directory, slash, last = prefix.rpartition("/")
    above = encode_chunk_path(f"{directory}/x").rpartition("/")[0] + "/" if slash else ""
    piece = _quote(last)[:_PIECE_CHARS_MAX] if last else ""
    if piece.endswith(FILE_SUFFIX) or (piece == PROOF and not slash):
        piece = piece[:-1]  # as the last part of a directory it would be encoded
    return above + piece


def prefix_directory(prefix: str) -> str:
    """Return the directory ("" is the root) below which every chunk lies whose name begins so."""
    directory = prefix.rpartition("/")[0]
    return encode_chunk_path(directory + "/x").rpartition("/")[0] if directory else ""


def _quote(part: str) -> str:
    if not part:
        return _EMPTY
    quoted = "".join(map(_QUOTED.__getitem__, part.encode("utf-8", "surrogatepass")))
    return _quote_dot(quoted)


def _quote_dot(piece: str) -> str:
    """Encode a leading dot: no directory entry is ``.`` or ``..``, or hidden."""
    return "%2E" + piece[1:] if piece.startswith(".") else piece


def _quote_last(part: str) -> str:
    return f"{part[:-1]}%{ord(part[-1]):02X}"


def _unquote(part: str) -> str:
    if part == _EMPTY:
        return ""
    return _HEX.sub(lambda found: bytes([int(found[1], 16)]), part.encode()).decode("utf-8", "surrogatepass")
