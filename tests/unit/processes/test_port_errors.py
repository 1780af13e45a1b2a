"""A server that cannot have an address says which option chose it."""

import errno
import socket

import pytest

from headrace.processes.config import StandaloneConfig
from headrace.processes.port_errors import naming_port
from headrace.processes.standalone import StandaloneServer

PARTS = ("controller", "segmentstore", "rest")
ANY = {f"{part}_port": 0 for part in PARTS}


@pytest.mark.parametrize("part", PARTS)
async def test_a_taken_port_is_named_with_its_option(part):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = StandaloneConfig(in_memory=True, containers=1, **(ANY | {f"{part}_port": port}))
        server = StandaloneServer(config)
        with pytest.raises(OSError, match=f"^cannot listen on 127.0.0.1:{port}: ") as caught:
            await server.start()
        await server.stop()
    assert "address already in use" in str(caught.value)
    assert f"choose another one with --{part}-port (setting {part}_port); 0 is" in str(caught.value)


async def test_a_host_that_is_none_of_this_machine_is_named_with_its_option():
    for host in ("192.0.2.1", "no-such-host.invalid"):
        server = StandaloneServer(StandaloneConfig(in_memory=True, containers=1, host=host, **ANY))
        with pytest.raises(OSError, match=rf"^cannot listen on {host}:0: .*with --host \(setting host\)"):
            await server.start()
        await server.stop()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.EACCES, "no"),
            "permission denied: this user may not use the port; choose another one",
        ),
        (OSError("grpc said no"), r"grpc said no: .*--host"),
        (socket.gaierror(-2, "Name or service not known"), r"not known: .*--host"),
    ],
)
def test_the_reason_of_the_system_is_told_in_its_words(error, said):
    with (
        pytest.raises(OSError, match=rf"^cannot listen on \[::1\]:80: .*{said}"),
        naming_port("x", "::1", 80),
    ):
        raise error
