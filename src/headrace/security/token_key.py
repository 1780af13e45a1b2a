"""The file of the key that signs delegation tokens: one that is given, or one made in the data directory.

Tokens stay valid when a server starts again, since the key does. Page: ``docs/formats/data-directory.md``.
"""

from __future__ import annotations

import os
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.runtime.entropy import Entropy
from headrace.runtime.filesystem import Filesystem
from headrace.security.tokens import TokenKey

FILE_NAME: Final = "token.key"

_RANDOM_BYTES: Final = 64
_BYTES_MAX: Final = 4096


def load_token_key(files: Filesystem, path: str) -> TokenKey:
    """Return the key that a file holds: its bytes but for line ends behind them.

    Raises:
        InvalidArgumentError: it cannot be read, or is too short or too long. The text has nothing of it.
    """
    try:
        content = _read(files, path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InvalidArgumentError(f"the key for tokens {path} cannot be read: {reason}") from None
    if len(content) > _BYTES_MAX:
        raise InvalidArgumentError(f"{path} is no key for tokens: it has more than {_BYTES_MAX} bytes")
    try:
        return TokenKey(content.rstrip(b"\r\n"))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{path}: {error}; make one with: openssl rand -hex 64 > {path}") from None


def keep_token_key(files: Filesystem, directory: str, entropy: Entropy) -> TokenKey:
    """Return the key of a data directory, whose lock the caller has; make it durably if there is none.

    Raises:
        InvalidArgumentError: see :func:`load_token_key`.
        OSError: it cannot be written.
    """
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        _write(files, directory, entropy.token(_RANDOM_BYTES).hex().encode() + b"\n")
    return load_token_key(files, path)


def make_token_key(entropy: Entropy) -> TokenKey:
    """Return a key that nothing keeps."""
    return TokenKey(entropy.token(_RANDOM_BYTES))


def _read(files: Filesystem, path: str) -> bytes:
    fd = files.open(path, os.O_RDONLY)
    try:
        buffer = bytearray(_BYTES_MAX + 1)
        count = files.pread_into(fd, memoryview(buffer), 0)
    finally:
        files.close(fd)
    return bytes(buffer[:count])


def _write(files: Filesystem, directory: str, content: bytes) -> None:
    temporary = f"{directory}/.{FILE_NAME}"
    if files.exists(temporary):  # of a start that was killed, perhaps empty
        files.unlink(temporary)
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        files.pwrite(fd, content, 0)
        files.fsync(fd)
    except OSError as error:
        error.filename = temporary  # the system knows only the descriptor
        raise
    finally:
        files.close(fd)
    files.rename(temporary, f"{directory}/{FILE_NAME}")
    files.fsync_directory(directory)
