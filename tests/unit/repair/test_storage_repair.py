"""While storage is mended nothing else changes it."""

import pytest

from headrace.processes.config import SegmentStoreConfig
from headrace.repair import storage_repair
from headrace.repair.repair_plan import RepairPlan
from headrace.segmentstore.container.config import ContainerConfig
from headrace.storage.chunks.optimiser_config import OptimiserConfig


class StartedError(Exception):
    """Instead of a segment store."""


async def test_no_chunk_is_rewritten_while_storage_is_mended(monkeypatch):
    configs = []

    class Part:
        def __init__(self, config, runtime):
            configs.append(config)

        def take(self):
            raise StartedError

        async def stop(self):
            pass

    monkeypatch.setattr(storage_repair, "ServedStore", Part)
    config = SegmentStoreConfig(container=ContainerConfig(optimiser=OptimiserConfig(mode="on")))
    with pytest.raises(StartedError):
        await storage_repair.repair_storage(config, RepairPlan())
    assert configs[0].container.optimiser.mode == "off"
