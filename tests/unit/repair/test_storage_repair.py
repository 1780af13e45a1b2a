"""While storage is mended nothing else changes it."""

import pytest

from headrace.processes.config import StandaloneConfig
from headrace.repair import storage_repair
from headrace.repair.repair_plan import RepairPlan
from headrace.segmentstore.container.config import ContainerConfig
from headrace.storage.chunks.optimiser_config import OptimiserConfig


class StartedError(Exception):
    """Instead of a server."""


async def test_no_chunk_is_rewritten_while_storage_is_mended(monkeypatch):
    configs = []

    class Server:
        def __init__(self, config):
            configs.append(config)

        async def start_data(self):
            raise StartedError

    monkeypatch.setattr(storage_repair, "StandaloneServer", Server)
    config = StandaloneConfig(container=ContainerConfig(optimiser=OptimiserConfig(mode="on")))
    with pytest.raises(StartedError):
        await storage_repair.repair_storage(config, RepairPlan())
    assert configs[0].container.optimiser.mode == "off"
