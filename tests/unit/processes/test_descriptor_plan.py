"""How descriptors are divided: what logs need is never given away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.processes.descriptor_plan import (
    CHUNK_FILES_SHARE,
    CONNECTION_DESCRIPTORS,
    CONTAINER_DESCRIPTORS,
    PROCESS_DESCRIPTORS,
    DescriptorPlan,
    containers_at_once,
    plan_descriptors,
)
from headrace.storage.providers.config import ChunkThreadsConfig

THREADS = ChunkThreadsConfig()


@pytest.mark.parametrize(
    ("containers", "stores", "planned"),
    [
        (16, 1, 16),
        (16, 2, 16),
        (16, 3, 12),
        (16, 8, 4),
        (16, 16, 2),
        (16, 100, 2),
        (4096, 64, 128),
        (1, 5, 1),
    ],
)
def test_a_store_is_planned_for_twice_its_share_of_the_containers(containers, stores, planned):
    assert containers_at_once(containers, stores) == planned


@given(
    limit=st.integers(0, 1 << 20),
    containers=st.integers(1, 1024),
    connections=st.integers(1, 1_000_000),
    reads=st.integers(1, 256),
    files=st.integers(1, 1000),
)
def test_clients_and_their_files_get_what_logs_and_threads_leave(
    limit, containers, connections, reads, files
):
    threads = ChunkThreadsConfig(reads=reads)
    reserved = PROCESS_DESCRIPTORS + containers * CONTAINER_DESCRIPTORS
    reserved += threads.writes + threads.reads + threads.chores
    if limit < reserved + CHUNK_FILES_SHARE:
        with pytest.raises(InvalidArgumentError, match=f"lets this process open {limit} files"):
            plan_descriptors(limit, containers, connections, threads, files)
        return
    plan = plan_descriptors(limit, containers, connections, threads, files)
    assert 1 <= plan.connections_max <= connections
    assert 1 <= plan.chunk_files_max <= files
    taken = plan.connections_max * CONNECTION_DESCRIPTORS + plan.chunk_files_max
    assert reserved + taken <= limit
    if plan.connections_max < connections:
        assert reserved + taken + CONNECTION_DESCRIPTORS > limit, "some are left"


def test_common_limits():
    assert plan_descriptors(None, 4, 10_000, THREADS, 256) == DescriptorPlan(10_000, 256)
    assert plan_descriptors(524_288, 4, 10_000, THREADS, 256) == DescriptorPlan(10_000, 256)
    assert plan_descriptors(1024, 4, 10_000, THREADS, 256) == DescriptorPlan(360, 102)
    with pytest.raises(
        InvalidArgumentError, match="lets this process open 256 files; 16 containers need 401"
    ):
        plan_descriptors(256, 16, 10_000, THREADS, 256)
