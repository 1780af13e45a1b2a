"""Chunk names as keys of an object store and back.

The key of a chunk is its path as a file (:mod:`.chunk_paths`) below the prefix of the store: readable, of
ASCII characters that no store or proxy changes, in parts of at most 206 bytes, and never the folder of
another key (some servers keep objects as files). A key has at most 1024 bytes; a name whose path is longer
has the key ``%long/<SHA-256 of the name>.chunk``, which is no path of any name, and is itself in the metadata
of the object.

Format page: ``docs/formats/chunk-names.md``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Final

from headrace.storage.providers.files.chunk_paths import (
    FILE_SUFFIX,
    decode_chunk_path,
    encode_chunk_path,
    encode_prefix,
)

KEY_BYTES_MAX: Final = 1024
WRITE_ID: Final = "headracewrite"
"""Metadata of every object: which call of ``create`` made it. Some stores take only letters there."""

LONG_NAME: Final = "headracename"
"""Metadata of an object with a hashed key: its name, in base64 (RFC 4648, section 5)."""

_LONG_FOLDER: Final = "%long/"


@dataclass(frozen=True, slots=True)
class ObjectKeys:
    """The keys below one prefix; ``prefix`` is empty or ends with a slash."""

    prefix: str

    @classmethod
    def below(cls, prefix: str) -> ObjectKeys:
        """Return the keys below a prefix without slashes at its ends."""
        return cls(f"{prefix}/" if prefix else "")

    def key_of(self, name: str) -> str:
        """Return the key of a chunk."""
        key = self.prefix + encode_chunk_path(name)
        if len(key) <= KEY_BYTES_MAX:
            return key
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.prefix}{_LONG_FOLDER}{digest}{FILE_SUFFIX}"

    def is_hashed(self, key: str) -> bool:
        """Whether a key does not tell the name: it is in the metadata of the object."""
        return key.startswith(self.prefix + _LONG_FOLDER)

    def name_of(self, key: str) -> str | None:
        """Return the name of the chunk with this key; None if there is none, or the key does not tell it."""
        if not key.startswith(self.prefix) or len(key) > KEY_BYTES_MAX:
            return None
        return decode_chunk_path(key[len(self.prefix) :])

    def listed_prefixes(self, prefix: str) -> tuple[str, ...]:
        """Return what to list to see the keys of all chunks whose names begin with ``prefix``.

        Keys of other chunks, and of no chunks, are seen too; no key is seen twice.
        """
        plain = self.prefix + encode_prefix(prefix)
        hashed = self.prefix + _LONG_FOLDER
        return (plain,) if hashed.startswith(plain) else (plain, hashed)

    def metadata_of(self, name: str, key: str, write_id: str) -> dict[str, str]:
        """Return the metadata of the object that a call of ``create`` is to make."""
        metadata = {WRITE_ID: write_id}
        if self.is_hashed(key):
            metadata[LONG_NAME] = base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()
        return metadata

    def name_in(self, metadata: dict[str, str], key: str) -> str | None:
        """Return the name of the chunk with a hashed key; None if its metadata do not have it."""
        try:
            name = base64.urlsafe_b64decode(metadata.get(LONG_NAME, "")).decode("utf-8", "surrogatepass")
        except (binascii.Error, ValueError):
            return None
        return name if name and self.key_of(name) == key else None
