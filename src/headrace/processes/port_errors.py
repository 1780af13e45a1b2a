"""Says which option chose an address on which the server cannot listen, and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.model.endpoint import Endpoint

_ABOUT_THE_PORT: Final = {
    errno.EADDRINUSE: "end the program that has the port, or choose another one",
    errno.EACCES: "this user may not use the port; choose another one",
}


@contextmanager
def naming_port(setting: str, host: str, port: int) -> Iterator[None]:
    """Raise an OSError of the block as one that names the option to change, ``setting`` or the host."""
    try:
        yield
    except OSError as error:
        number = _errno_of(error)
        reason = os.strerror(number).lower() if number > 0 else str(error.__cause__ or error)
        advice = _ABOUT_THE_PORT.get(number)
        if advice is None:
            remedy = "choose an address of this machine with --host (setting host)"
        else:
            option = "--" + setting.replace("_", "-")
            remedy = f"{advice} with {option} (setting {setting}); 0 is any free one"
        raise OSError(f"cannot listen on {Endpoint(host, port)}: {reason}: {remedy}") from error


def _errno_of(error: BaseException | None) -> int:
    """Return the error number of an error, or of what caused it; 0 if neither has one."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error.errno
        error = error.__cause__
    return 0
