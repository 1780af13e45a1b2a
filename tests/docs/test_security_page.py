"""The page about security: commands that work in their order, legal grants, a handler that lets users in."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from headrace.client import ClientConfig, Credentials, connect
from headrace.errors import PermissionDeniedError, UnauthenticatedError
from headrace.security.config import AuthConfig
from headrace.security.grants import Grant
from headrace.security.tls_config import TlsConfig
from headrace.testing import LocalServer
from tests.docs.command_line import make_command, run_line

PAGE = Path(__file__).parents[2] / "docs" / "operating" / "security.md"
TEXT = PAGE.read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


COMMANDS, QUESTIONS = (block.splitlines() for block in blocks("sh"))
(HANDLER,) = blocks("python")
(ENTRY_POINT,) = blocks("toml")


def test_there_are_five_commands():
    assert len(COMMANDS) == 5


def test_its_grants_are_legal():
    grants = re.findall(r"[`']((?:prn::)[^`']*,[A-Z_]+)[`']", TEXT)
    assert len(grants) >= 6
    for grant in grants:
        Grant.parse(grant)


def test_the_settings_it_names_exist():
    named = set(re.findall(r"`(auth|tls)\.([a-z_]+)", TEXT))
    assert len(named) >= 5
    for section, name in named:
        assert hasattr({"auth": AuthConfig, "tls": TlsConfig}[section], name), (section, name)


# ------------------------------------------------------------------------------------------ commands


@pytest.fixture
def directory(tmp_path):
    make_command(tmp_path)
    return tmp_path


def run(directory, line):
    done = run_line(directory, line)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.cluster
@pytest.mark.slow
def test_every_command_works(directory):
    (serve,) = (line for line in COMMANDS if " standalone " in line)
    at = COMMANDS.index(serve)
    for line in COMMANDS[:at]:
        run(directory, line)
    options = serve.removeprefix("headrace standalone ").removesuffix(" &").split()
    options = [str(directory / each) if (directory / each).is_file() else each for each in options]
    with LocalServer(directory / "server", *options) as server:
        ports = {
            f"localhost:{usual}": f"localhost:{server.addresses[part].rpartition(':')[2]}"
            for usual, part in ((9090, "controller"), (10080, "rest"))
        }
        for line in COMMANDS[at + 1 :] + QUESTIONS:
            assert any(address in line for address in ports)
            for address, real in ports.items():
                line = line.replace(address, real)
            said = run(directory, line)
        assert "unstored" in said
        secret = (directory / "password").read_text().strip()
        assert secret not in server.log()
        assert server.stop() == 0
    for name in ("password", "server.key", "users", "server/data/token.key"):
        assert (directory / name).stat().st_mode & 0o077 == 0, name


# ------------------------------------------------------------------------------------------ own handlers


@pytest.mark.cluster
@pytest.mark.slow
async def test_its_handler_lets_users_in(tmp_path):
    (tmp_path / "badges.py").write_text(HANDLER)
    about = tmp_path / "badges-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: badges\nVersion: 1.0\n")
    (group,) = re.findall(r'entry-points\."(.*?)"', ENTRY_POINT)
    (about / "entry_points.txt").write_text(
        f"[{group}]\n{ENTRY_POINT.splitlines()[1].replace(chr(34), '')}\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {"PYTHONPATH": paths, "HEADRACE_AUTH__HANDLERS": "Badge"}
    users = {"admin": ("secret", "prn::*,READ_UPDATE")}
    async with LocalServer(
        tmp_path / "server", "--containers", "1", environment=environment, users=users
    ) as server:

        def connect_with(credentials):
            return connect(server.uri, ClientConfig(credentials=credentials))

        async with connect_with(Credentials.basic("admin", "secret")) as client:
            await client.create_scope("lobby")
            await client.create_stream("lobby", "news")
        async with connect_with(Credentials(method="Badge", token="4711")) as client:
            assert [name async for name in client.list_streams("lobby")] == ["news"]
            async with client.event_reader("lobby", "news", end="tail") as reader:
                assert [event async for event in reader] == []
            with pytest.raises(PermissionDeniedError):
                await client.create_stream("lobby", "rumours")
        async with connect_with(Credentials(method="Badge", token="4712")) as client:
            with pytest.raises(UnauthenticatedError) as caught:
                await client.create_scope("attic")
        assert "4712" not in str(caught.value)
        assert "4712" not in server.log()
        await asyncio.to_thread(server.stop)
