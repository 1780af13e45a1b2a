"""The tables of a container over segments in memory."""

from __future__ import annotations

from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.tables import ContainerTables
from tests.simulation.worlds.memory_segments import MemorySegments


def tables_on(access: MemorySegments, config: TablesConfig | None = None) -> ContainerTables:
    return ContainerTables(access, access.indexes, SeededEntropy("tables"), config)
