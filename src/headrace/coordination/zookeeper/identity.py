"""Who a process is to ZooKeeper, and how what it sends is encrypted: read from files for each session."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.errors import InvalidArgumentError

_DIGEST_CHARS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """What a connection begins with."""

    tls: ssl.SSLContext | None
    digest: str | None = field(repr=False)
    """User and password: a secret."""


def read_identity(config: ZooKeeperConfig) -> Identity:
    """Raises InvalidArgumentError: a file cannot be read, or holds something else."""
    return Identity(_read_tls(config), _read_digest(config))


def _read_tls(config: ZooKeeperConfig) -> ssl.SSLContext | None:
    if config.tls_authority is None:
        return None
    try:
        context = ssl.create_default_context(cafile=config.tls_authority)
        if config.tls_cert is not None:
            context.load_cert_chain(config.tls_cert, config.tls_key)
    except OSError as error:  # of ssl too
        raise InvalidArgumentError(
            f"certificates for ZooKeeper cannot be used ({config.tls_authority}, {config.tls_cert}, "
            f"{config.tls_key}): {error}"
        ) from None
    return context


def _read_digest(config: ZooKeeperConfig) -> str | None:
    if config.digest_file is None:
        return None
    try:
        text = Path(config.digest_file).read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{config.digest_file} cannot be read: {error}") from None
    user, _, password = text.partition(":")
    if not user or not password or "\n" in text or len(text) > _DIGEST_CHARS_MAX:
        raise InvalidArgumentError(f"{config.digest_file} holds no line USER:PASSWORD for ZooKeeper")
    return text
