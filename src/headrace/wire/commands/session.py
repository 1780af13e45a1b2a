"""Commands about the connection itself."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import Int32


@dataclass(slots=True)
class Hello(Request, Reply):
    """The range of protocol versions its sender understands."""

    high_version: Int32
    low_version: Int32


@dataclass(slots=True)
class KeepAlive(Request, Reply):
    """Asks whether the peer is alive. The answer is the same command."""
