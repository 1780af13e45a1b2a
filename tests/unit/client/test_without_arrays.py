"""numpy and pyarrow are optional: without them everything works but the calls that are about them."""

import asyncio
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, importlib.util, sys

real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("numpy", "pyarrow") else real(name, *rest)

from headrace.client import connect
from headrace.errors import UnsupportedError

async def main(uri):
    async with connect(uri) as client:
        async with client.event_writer("s", "t") as writer:
            keys = [f"k{number % 7}" for number in range(3000)]
            events = [f"{key}:{number}".encode() for number, key in enumerate(keys)]
            await writer.write_many(events, keys)
            await writer.write_many([b"x:0"] * 100)
            await writer.write(b"y:0", "key")
        found = []
        async with client.event_reader("s", "t", end="tail") as reader:
            async for batch in reader.batches():
                found += batch
                assert len(batch) == len(batch.offsets()) == len(list(batch.events()))
                try:
                    batch.to_arrow()
                except UnsupportedError:
                    pass
                else:
                    raise AssertionError
        assert sorted(found) == sorted(events + [b"x:0"] * 100 + [b"y:0"])
        for key in set(keys):
            mine = [event for event in found if event.startswith(key.encode() + b":")]
            assert mine == [event for event in events if event.startswith(key.encode() + b":")]
    assert "numpy" not in sys.modules and "pyarrow" not in sys.modules

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.cluster
async def test_events_are_written_and_read_without_numpy_and_pyarrow(system):
    system.controller.create("s", "t", 3)
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, system.uri, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(60):
        _, told = await program.communicate()
    assert program.returncode == 0, told.decode()
