"""Which readers of a group are dead: those of this client that were silent for a while. Pure.

The protocol has no signs of life. A reader of this client reports its distance within seconds however slow
its application is, and has a name that tells its kind; readers of others are never taken for dead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

OWN_SUFFIX: Final = ".py"
"""Of the names of readers of this client."""
SILENCE_S: Final = 30.0
GAP_S_MAX: Final = 10.0
"""Between two looks at the group: whoever looked away for longer cannot know who was silent meanwhile."""


class Liveness:
    """When each reader was heard of last, as one reader of the group sees it."""

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._looked: float | None = None

    def observe(self, now: float, readers: Collection[str], heard: Collection[str]) -> list[str]:
        """Take what was read of the group up to ``now``; return the readers that are dead.

        Args:
            now: seconds.
            readers: those that are online.
            heard: those of whom an update was read since the last call.
        """
        gap = self._looked is None or now - self._looked > GAP_S_MAX
        self._looked = now
        own = [reader for reader in readers if reader.endswith(OWN_SUFFIX)]
        self._heard = {
            reader: now if gap or reader in heard else self._heard.get(reader, now) for reader in own
        }
        return [reader for reader, at in self._heard.items() if now - at >= SILENCE_S]
