"""The real Java client against a server with certificates and users: what each of them may do.

``java_programs.py`` says what it needs.
"""

import collections

import pytest

from tests.interop.java_programs import needs_java_client, run_program
from tests.secure_server import USERS
from tests.servers import running_secure

pytestmark = [pytest.mark.cluster, needs_java_client]

OF_A_STREAM = {"streamExists", "streamInfo", "readInBatches"}
READING = OF_A_STREAM | {"listStreams", "listTables", "readWithGroup"}
CHANGING = {"updateStream", "write", "writeInTransaction", "truncate"}
OF_A_TABLE = {"put", "get"}
MAKING = {"createStream", "deleteStream", "createTable", "deleteTable"}
OF_THE_SERVER = {"createScope", "listScopes"}
EVERYTHING = READING | CHANGING | OF_A_TABLE | MAKING | OF_THE_SERVER

ALLOWED = {
    "admin": EVERYTHING,
    "writer": EVERYTHING - OF_THE_SERVER,
    "reader": READING,
    "narrow": READING,
    "streamer": OF_A_STREAM | CHANGING,
    "table": OF_A_TABLE,
    "stranger": set(),
}


@pytest.fixture(scope="module")
def server(server_kind, tmp_path_factory):
    with running_secure(server_kind, tmp_path_factory.mktemp("java")) as made:
        yield made
        assert made.stop() == 0
        assert " ERROR " not in made.log()


@pytest.fixture
def run(server):
    """Run a case of the program; return the outcome of each action, by user."""

    def run_case(scope, case, *users):
        one = server.uri.partition(",")[0]  # with several it takes all of them for the name in a certificate
        printed = run_program("Secure", one, str(server.certificates.ca), scope, case, *users)
        facts = collections.defaultdict(dict)
        for words in printed:
            if words[:1] == ["FACT"]:
                facts[words[1]][words[2]] = words[3]
        return facts

    return run_case


def user(name, password=None):
    return f"{name}:{name}:{password or USERS[name][0]}"


def test_each_user_does_what_is_granted_and_nothing_else(run):
    impostors = {"mistaken": "mistaken:admin:wrong", "unknown": "unknown:nobody:pass", "mute": "mute::"}
    facts = run("sales", "actions", *map(user, ALLOWED), *impostors.values())
    expected = {
        name: {action: "done" if action in allowed else "PERMISSION_DENIED" for action in EVERYTHING}
        for name, allowed in ALLOWED.items()
    }
    expected |= {name: dict.fromkeys(EVERYTHING, "UNAUTHENTICATED") for name in impostors}
    assert facts == expected


def test_everything_works_encrypted_for_a_user_who_may(run):
    facts = run("complete", "everything", user("admin"))["admin"]
    assert facts.pop("groups") == facts.pop("batches") == "21"
    assert facts.pop("bytes") == "1000"
    assert facts.pop("value") == "7"
    assert set(facts.values()) == {"true"}
