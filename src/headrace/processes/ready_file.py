"""The file with the addresses of the server, which appears in one atomic step once it can be used."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""How often a full disk is asked for space for the file, as the logs ask it."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


async def write_when_there_is_space(
    path: str, addresses: dict[str, str | bool], stopping: asyncio.Event
) -> None:
    """As :func:`write_ready_file`, but wait for space, until ``stopping`` is set: the server serves already.

    Raises:
        OSError: the file cannot be written for another reason.
    """
    is_logged = False
    while not stopping.is_set():
        try:
            write_ready_file(path, addresses)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if not is_logged:
                _logger.warning("clients may connect, but there is no space for %s: retrying", path)
                is_logged = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await stopping.wait()
        else:
            return


def write_ready_file(path: str, addresses: Mapping[str, object]) -> None:
    """Write ``addresses`` and the process id as JSON; a reader sees all of it or no file."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps({**addresses, "pid": os.getpid()}) + "\n")
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_ready_file(path: str) -> None:
    """Remove the file. A missing one is fine."""
    Path(path).unlink(missing_ok=True)
