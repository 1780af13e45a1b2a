"""The nodes of a coordinator in memory: what a change does, and which paths it touches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.coordination.node import Node, check_data, check_path, check_version, parents_of
from headrace.errors import (
    InvalidArgumentError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
)

_SEQUENCE_DIGITS: Final = 10
PERSISTENT: Final = 0
"""The owner of nodes that belong to no session."""


@dataclass(slots=True)
class _Entry:
    data: bytes
    owner: int = PERSISTENT
    version: int = 0
    sequence: int = 0
    names: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Changes:
    """Paths whose node was made, changed or deleted, and paths whose list of names was changed."""

    nodes: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)


class NodeTree:
    """All nodes. A change is made whole or raises and changes nothing. Owners are numbers of sessions."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def read(self, path: str) -> Node | None:
        check_path(path)
        found = self._entries.get(path)
        return None if found is None else Node(found.data, found.version)

    def children(self, path: str) -> list[str]:
        check_path(path)
        found = self._entries.get(path)
        return [] if found is None else sorted(found.names)

    def create(
        self, path: str, data: bytes, *, owner: int = PERSISTENT, sequential: bool = False
    ) -> tuple[str, Changes]:
        """Make a node; return its path."""
        check_path(path)
        check_data(data)
        parents = parents_of(path)
        for parent in parents:
            entry = self._entries.get(parent)
            if entry is not None and entry.owner != PERSISTENT:
                raise InvalidArgumentError(f"node {parent} is ephemeral: no node is made below it")
        if not sequential and path in self._entries:
            raise NodeExistsError(f"node {path} exists")
        changes = Changes()
        for parent in parents:
            if parent not in self._entries:
                self._add(parent, _Entry(b""), changes)
        if sequential:
            above = self._entries[parents[-1]] if parents else self._root()
            path = f"{path}{above.sequence:0{_SEQUENCE_DIGITS}}"
            above.sequence += 1
        self._add(path, _Entry(data, owner), changes)
        return path, changes

    def write(self, path: str, data: bytes, version: int) -> tuple[int, Changes]:
        """Replace the data; return the new version."""
        check_data(data)
        entry = self._get(path, version)
        entry.data = data
        entry.version += 1
        return entry.version, Changes(nodes=[path])

    def delete(self, path: str, version: int) -> Changes:
        if self._get(path, version).names:
            raise MetadataConflictError(f"there are nodes below {path}")
        changes = Changes()
        self._remove(path, changes)
        return changes

    def delete_of(self, owner: int) -> Changes:
        """Delete the ephemeral nodes of a session."""
        changes = Changes()
        for path in [path for path, entry in self._entries.items() if entry.owner == owner]:
            self._remove(path, changes)
        return changes

    def _get(self, path: str, version: int) -> _Entry:
        check_path(path)
        check_version(version)
        entry = self._entries.get(path)
        if entry is None:
            raise NoSuchNodeError(f"there is no node {path}")
        if entry.version != version:
            raise MetadataConflictError(f"node {path} has version {entry.version}, not {version}")
        return entry

    def _root(self) -> _Entry:
        return self._entries.setdefault("", _Entry(b""))

    def _above(self, path: str) -> tuple[str, str, _Entry]:
        parent, _, name = path.rpartition("/")
        return parent, name, self._entries[parent] if parent else self._root()

    def _add(self, path: str, entry: _Entry, changes: Changes) -> None:
        parent, name, above = self._above(path)
        above.names[name] = None
        self._entries[path] = entry
        changes.nodes.append(path)
        changes.lists.append(parent)

    def _remove(self, path: str, changes: Changes) -> None:
        parent, name, above = self._above(path)
        del above.names[name]
        del self._entries[path]
        changes.nodes.append(path)
        changes.lists.append(parent)
