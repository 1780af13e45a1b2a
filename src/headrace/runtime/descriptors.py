"""How many files and connections the system lets this process have open."""

from __future__ import annotations

import contextlib
import resource


def find_limit() -> int | None:
    """Return the limit, or None if there is none."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def raise_limit() -> None:
    """Raise the limit as far as the system allows: the default (often 1024) is meant for small programs.

    For whole processes, not for embedding programs: children inherit the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
