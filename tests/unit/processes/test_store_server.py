"""A segment store by itself: when it is ready, who may use it, and what it does not take."""

import asyncio
import errno
import os

import httpx
import pytest

from headrace.errors import InvalidArgumentError
from headrace.processes.config import SegmentStoreConfig, StandaloneConfig
from headrace.processes.store_server import SegmentStoreServer
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.clock import SystemClock
from headrace.runtime.context import Runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.settings import walk
from headrace.runtime.settings_sources import load
from headrace.security.config import AuthConfig
from headrace.security.permission import Permission
from headrace.security.tokens import TokenKey, issue
from headrace.testing.users_files import write_users_file
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c

ANY_PORT = {"segmentstore_port": 0, "rest_port": 0}


class FullDisk(OsFilesystem):
    """No space for the log of container 1, until there is."""

    is_full = True

    def open(self, path, flags, mode=0o644):
        if self.is_full and flags & os.O_CREAT and "container-1/" in path:
            raise OSError(errno.ENOSPC, "no space left")
        return super().open(path, flags, mode)


def asking(server):
    return httpx.AsyncClient(base_url=f"http://{server.web.endpoint}", trust_env=False, timeout=60)


@pytest.mark.real_loop
@pytest.mark.slow
async def test_it_is_not_ready_before_every_container_is_online(tmp_path):
    files = FullDisk()
    config = SegmentStoreConfig(data_dir=str(tmp_path), containers=2, **ANY_PORT)
    server = SegmentStoreServer(config, Runtime(SystemClock(), SeededEntropy(1), files, SystemThreads()))
    starting = asyncio.ensure_future(server.start())
    try:
        async with asyncio.timeout(120):
            while not server.web.endpoint.port:  # noqa: ASYNC110 - nothing could set an event
                await asyncio.sleep(0.01)
            async with asking(server) as web:
                waiting = await web.get("/ready")
                alive = await web.get("/live")
                files.is_full = False
                await starting
                ready = await web.get("/ready")
    finally:
        await server.stop()
    assert (waiting.status_code, alive.status_code, ready.status_code) == (503, 200, 200)
    assert "container-1" in waiting.json()["details"]["notReady"]


@pytest.mark.real_loop
async def test_who_has_no_token_of_its_controller_is_refused(tmp_path):
    write_users_file(tmp_path / "users", {"ann": ("crimson-password", "prn::/,READ")})
    key = b"0123456789abcdef" * 4
    (tmp_path / "key").write_bytes(key)
    auth = AuthConfig(users=str(tmp_path / "users"), token_key=str(tmp_path / "key"))
    server = SegmentStoreServer(SegmentStoreConfig(in_memory=True, containers=1, auth=auth, **ANY_PORT))
    addresses = await server.start()
    try:
        host, _, port = addresses.segmentstore.rpartition(":")
        wire = await WireClient.connect(host, int(port), 120)
        refused = await wire.call(c.CreateSegment(1, "s/a", 0, 0, ""), 120)
        token = issue(TokenKey(key), {"*": Permission.READ_UPDATE}, 0, None)
        taken = await wire.call(c.CreateSegment(2, "s/a", 0, 0, token), 120)
        wire.close()
        async with asking(server) as web:
            codes = [
                (await web.get("/ready")).status_code,
                (await web.get("/metrics")).status_code,
                (await web.get("/metrics", auth=("ann", "crimson-password"))).status_code,
            ]
    finally:
        await server.stop()
    assert isinstance(refused, c.AuthTokenCheckFailed)
    assert isinstance(taken, c.SegmentCreated)
    assert codes == [200, 401, 200]


def test_users_without_the_key_of_their_controller_are_refused_before_anything_is_touched(tmp_path):
    config = SegmentStoreConfig(data_dir=str(tmp_path / "data"), auth=AuthConfig(users="users"))
    with pytest.raises(InvalidArgumentError, match=r"setting auth\.token_key"):
        SegmentStoreServer(config)
    assert not (tmp_path / "data").exists()


def test_its_settings_are_those_of_a_standalone_server_without_the_controllers():
    own = {setting.key: setting for setting in walk(SegmentStoreConfig)}
    every = {setting.key: setting for setting in walk(StandaloneConfig)}
    assert own.items() <= every.items()
    left = {key.partition(".")[0] for key in every.keys() - own.keys()}
    assert left == {"advertise_controller", "controller_port", "controller", "rest", "scaling"}


@pytest.mark.parametrize("key", ["controller_port", "advertise_controller", "controller.buckets"])
def test_a_setting_of_a_controller_is_refused(key):
    with pytest.raises(InvalidArgumentError, match=f"unknown setting '{key}'"):
        load(SegmentStoreConfig, overrides={key: "1"})
