"""Programs of users that end without a close of their writer, against a real server."""

import subprocess
import sys
import textwrap

import pytest

import headrace
from headrace.testing import LocalServer
from tests import programs

pytestmark = pytest.mark.cluster

PROGRAMS = {
    "with": """
        import headrace
        with headrace.connect(URI) as client:
            writer = client.event_writer("q/a")
            for number in range(20_000):
                writer.write(str(number), f"key-{number % 10}")
        """,
    "without": """
        import headrace
        client = headrace.connect(URI)
        writer = client.event_writer("q/a")
        for number in range(20_000):
            writer.write(str(number), f"key-{number % 10}")
        """,
    "asyncio": """
        import asyncio, headrace
        async def main():
            async with headrace.aio.connect(URI) as client:
                writer = await client.event_writer("q/a")
                for number in range(20_000):
                    writer.write(str(number), f"key-{number % 10}")
        asyncio.run(main())
        """,
    "asyncio without": """
        import asyncio, headrace
        async def main():
            client = headrace.aio.connect(URI)
            writer = await client.event_writer("q/a")
            for number in range(20_000):
                writer.write(str(number), f"key-{number % 10}")
        asyncio.run(main())
        """,
    "exception": """
        import headrace
        with headrace.connect(URI) as client:
            writer = client.event_writer("q/a")
            for number in range(20_000):
                writer.write(str(number), f"key-{number % 10}")
            raise ZeroDivisionError("an error of the program")
        """,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("ends"), "--in-memory") as running:
        yield running


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_closes_no_writer_stores_every_event(server, name):
    with headrace.connect(server.uri) as client:
        client.create_scope("q")
        client.create_stream("q/a", segments=3)
        program = f"URI = {server.uri!r}\n{textwrap.dedent(PROGRAMS[name])}"
        done = programs.run([sys.executable, "-c", program], timeout=120, capture_output=True, check=False)
        told = done.stderr.decode()
        if name == "exception":
            assert done.returncode == 1
            assert told.rstrip().endswith("ZeroDivisionError: an error of the program")
        else:
            assert (done.returncode, told) == (0, "")
        found = {}
        for event in client.read("q/a"):
            number = int(event.data)
            found.setdefault(number % 10, []).append(number)
        assert found == {key: list(range(key, 20_000, 10)) for key in range(10)}
        client.seal_stream("q/a")
        client.delete_stream("q/a")


def test_a_program_whose_server_goes_is_told_what_is_not_durable(tmp_path):
    program = """
        import sys, headrace
        from headrace.errors import NotDurableError
        try:
            with headrace.connect(URI, headrace.ClientConfig(close_timeout_s=0.1)) as client:
                writer = client.event_writer("q/a")
                writer.write("before").wait()
                print(flush=True)
                sys.stdin.readline()
                for number in range(100):
                    writer.write(str(number))
        except NotDurableError as error:
            print(error.lost[0])
        """
    with LocalServer(tmp_path, "--in-memory") as server, headrace.connect(server.uri) as client:
        client.create_scope("q")
        client.create_stream("q/a")
        text = f"URI = {server.uri!r}\n{textwrap.dedent(program)}"
        with programs.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            running.stdout.readline()
            server.kill()
            told, _ = running.communicate("\n", timeout=120)
    assert told == "100 events of q/a\n"
