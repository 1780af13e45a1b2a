"""A gatekeeper as a server is told to make it: users of a file, handlers that are installed."""

from base64 import b64encode

import pytest

from headrace.errors import InvalidArgumentError
from headrace.runtime.entropy import SeededEntropy
from headrace.security.config import AuthConfig
from headrace.security.gatekeeper import make_gatekeeper
from headrace.security.grants import parse_grants
from headrace.security.passwords import Digest
from headrace.security.permission import Permission
from headrace.security.users_file import User, Users
from headrace.testing.blocking import SimulatedThreads

HANDLERS = "tests.unit.security.gatekeeping.handlers"
INSTALLED = f"""
[headrace.auth_handlers]
Ticket = {HANDLERS}:make_handler
Basic = {HANDLERS}:make_handler
Wrong = {HANDLERS}:make_another
Nothing = {HANDLERS}:make_nothing
Failing = {HANDLERS}:fail
Absent = {HANDLERS}:absent
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    package = tmp_path / "site" / "handlers-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: handlers\nVersion: 1\n")
    (package / "entry_points.txt").write_text(INSTALLED)
    monkeypatch.syspath_prepend(str(package.parent))


@pytest.fixture
def file(tmp_path):
    users = Users().with_user(User("ada", Digest.of("secret", bytes(8), 10), parse_grants("prn::/,READ")))
    (tmp_path / "users").write_bytes(users.render())
    return str(tmp_path / "users")


def make(**settings):
    return make_gatekeeper(AuthConfig(**settings), SimulatedThreads(SeededEntropy(1)), SeededEntropy(2))


def test_without_users_and_handlers_it_is_off():
    assert not AuthConfig().enabled
    assert AuthConfig(users="users").enabled
    assert AuthConfig(handlers="Ticket").enabled


async def test_users_of_the_file_and_of_handlers_are_let_in(file, installed):
    gatekeeper = make(users=file, handlers=" ticket, ")
    caller = await gatekeeper.authenticate("Basic " + b64encode(b"ada:secret").decode())
    assert (caller.name, caller.permission("prn::/")) == ("ada", Permission.READ)
    assert (await gatekeeper.authenticate("Ticket t")).name == "ada"


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ("Bearer", r"no auth handler of method 'Bearer'.*: Absent, Basic, Failing, Nothing, Ticket, Wrong$"),
        ("Ticket,Ticket", "two auth handlers of method 'Ticket'"),
        ("Basic", "says that its method is 'Ticket'"),
        ("Wrong", "says that its method is 'Another'"),
        ("Nothing", r"has no authenticate\(\)"),
        ("Failing", "cannot be made: OSError: no such server"),
        ("Absent", "cannot be made: AttributeError"),
    ],
)
def test_a_handler_that_is_none_is_refused_by_name(installed, methods, text):
    with pytest.raises(InvalidArgumentError, match=text):
        make(handlers=methods)


def test_without_any_installed_that_is_said():
    with pytest.raises(InvalidArgumentError, match=r"headrace\.auth_handlers: none"):
        make(handlers="Bearer")


def test_a_damaged_users_file_is_refused(tmp_path):
    (tmp_path / "users").write_text("ada\n")
    with pytest.raises(InvalidArgumentError, match="line 1"):
        make(users=str(tmp_path / "users"))
