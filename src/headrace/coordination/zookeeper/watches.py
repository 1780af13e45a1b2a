"""What one session waits for: each watch is notified of a change, of a new connection and of the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Key = tuple[str, bool]
"""A path, and whether its list of names is meant."""


class Watches:
    """Used on one event loop."""

    def __init__(self) -> None:
        self._events: dict[Key, dict[asyncio.Event, None]] = {}

    def add(self, key: Key) -> asyncio.Event:
        """Return an event that is set now, and whenever there may be news."""
        event = asyncio.Event()
        event.set()
        self._events.setdefault(key, {})[event] = None
        return event

    def remove(self, key: Key, event: asyncio.Event) -> None:
        events = self._events[key]
        del events[event]
        if not events:
            del self._events[key]

    def notify(self, key: Key) -> None:
        for event in self._events.get(key, ()):
            event.set()

    def notify_all(self) -> None:
        for key in self._events:
            self.notify(key)


@dataclass(frozen=True, slots=True)
class Signal:
    """What kazoo calls when a watch fires. Equal for one key: kazoo retains it once."""

    key: Key
    post: Callable[[Key], None]

    def __call__(self, event: Any) -> None:
        if event.path is not None:  # else the connection has gone: the next one notifies all
            self.post(self.key)
