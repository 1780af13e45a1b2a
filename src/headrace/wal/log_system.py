"""Whose logs a place has that is not a data directory."""

from __future__ import annotations

from typing import NamedTuple


class LogSystem(NamedTuple):
    """The facts of a system that its logs know."""

    system: str
    """Its id, in hex."""
    containers: int
