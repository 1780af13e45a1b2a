"""Requests to a store of several containers that only the store can judge; and names at their limit."""

import pytest

from headrace.data_directory.record import check_data_directory
from headrace.errors import InvalidArgumentError
from headrace.model.hashing import container_of
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.segmentstore.segment_names import PRIMARY_NAME_BYTES_MAX

CONTAINERS = 4


@pytest.fixture
async def plane():
    data_plane = WiredStore(StandaloneConfig(in_memory=True), system_runtime(), CONTAINERS)
    await data_plane.start()
    yield data_plane
    await data_plane.stop()


async def write(store, name, data):
    await store.create_segment(name)
    await store.append(name, data)


@pytest.mark.parametrize("batch", [False, True])
async def test_a_source_of_another_container_is_not_taken_for_one_that_is_gone(plane, batch):
    names = [f"scope/stream/{number}.#epoch.0" for number in range(20)]
    target, near = [name for name in names if container_of(name, CONTAINERS) == 0][:2]
    far = next(name for name in names if container_of(name, CONTAINERS) == 1)
    for name in (target, near, far):
        await write(plane.store, name, b"bytes")
    merge = plane.store.merge_batch(target, [near, far]) if batch else plane.store.merge_segments(target, far)
    with pytest.raises(InvalidArgumentError, match="different containers"):
        await merge
    for name in (target, near, far):
        info = await plane.store.segment_info(name)
        assert (info.length, info.sealed) == (5, False)


@pytest.mark.parametrize(
    "name",
    ["x" * PRIMARY_NAME_BYTES_MAX, "漢" * (PRIMARY_NAME_BYTES_MAX // 3), "./" * 415 + "a", " " * 836],
)
async def test_a_name_at_its_limit_is_stored(tmp_path, name):
    runtime = system_runtime()
    config = StandaloneConfig(data_dir=str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    check_data_directory(runtime.filesystem, config.data_dir, 1)
    data_plane = WiredStore(config, runtime, 1)
    await data_plane.start()
    try:
        await write(data_plane.store, name, b"bytes")
        scratch = await data_plane.store.create_transient_segment(name, bytes(16))
        await data_plane.store.append(scratch, b"scratch")
        container = data_plane.registry.get(name)
        await container.flush_storage()
        for segment, length in ((name, 5), (scratch, 7)):
            assert (await container.resolve(segment)).stored_length == length
    finally:
        await data_plane.stop()
