"""The numbered formats of all data of a system: those that a version writes, reads, and may be held to."""

from __future__ import annotations

from typing import Final

DATA_FORMAT: Final = 2
"""The newest one that this version knows, and what a new system begins with. Since 2 attributes may be in
indexes: a release that knows only 1 would take them for not set.
"""
FORMATS_OF_CLUSTERS: Final = tuple(range(2, DATA_FORMAT + 1))
"""At each of them this version can take part in a cluster: it writes nothing that only a later one has."""
