"""The order of a connection's changes of tables: which may begin while others run as tasks.

What runs as a task is accepted at an unknown time, so a change of the same key must not begin before its end,
nor one with a condition on the length of the table.
"""

from __future__ import annotations

from collections import Counter

from headrace.wire import commands as c

Change = c.UpdateTableEntries | c.RemoveTableKeys


class ChangeOrder:
    """The changes of one connection that run as tasks."""

    __slots__ = ("_keys", "_of_length")

    def __init__(self) -> None:
        self._keys: Counter[bytes] = Counter()
        """How many of them each key has, of whichever table."""
        self._of_length = 0
        """Those with a condition on the length of their table."""

    def begin(self, change: Change) -> None:
        """``change`` begins to run as a task."""
        self._keys.update(_keys_of(change))
        self._of_length += change.table_segment_offset >= 0

    def end(self, change: Change) -> None:
        """It has ended."""
        keys = self._keys
        for key in _keys_of(change):
            keys[key] -= 1
            if not keys[key]:
                del keys[key]
        self._of_length -= change.table_segment_offset >= 0

    def may_begin(self, change: Change) -> bool:
        """Whether ``change`` overtakes none that it must not."""
        if not self._keys and not self._of_length:
            return True
        if self._of_length or change.table_segment_offset >= 0:
            return False
        return not any(key in self._keys for key in _keys_of(change))


def _keys_of(change: Change) -> list[bytes]:
    items = change.keys if isinstance(change, c.RemoveTableKeys) else change.table_entries
    return [item.key for item in items]
