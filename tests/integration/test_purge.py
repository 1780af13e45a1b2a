"""After a purge no file of a server has what was truncated: neither logs, used again or not, nor chunks, nor
copies of logs.
"""

import json
import urllib.error
import urllib.request

import pytest

from headrace.cli.main import main
from headrace.client import blocking
from headrace.errors import InvalidArgumentError
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.model.stream_cut import StreamCut
from headrace.testing import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECRET, PUBLIC = b"what-nobody-may-read", b"what-everybody-may-read"
EVENTS = 300


def files_with(directory, marker):
    return [str(path) for path in directory.rglob("*") if path.is_file() and marker in path.read_bytes()]


def write(client, stream, marker, count=EVENTS):
    with client.event_writer("s", stream) as writer:
        for number in range(count):
            writer.write(marker + b"%d" % number + bytes(1000), key=str(number))


def read_all(client, stream):
    with client.event_reader("s", stream, end="tail") as reader:
        return [event.data for event in reader]


def purge(server, *words):
    return main(["stream", "purge", "s/t", "--rest", server.rest_url, "--yes", *words])


@pytest.fixture
def server(tmp_path):
    with LocalServer(tmp_path, "--containers", "2") as server, blocking.connect(server.uri) as client:
        client.create_scope("s")
        for stream in ("t", "other"):
            client.create_stream("s", stream, StreamConfiguration(scaling=ScalingPolicy.fixed(3)))
        yield server, client


def test_what_was_truncated_is_in_no_file_after_a_purge(server, tmp_path, capsys):
    server, client = server
    write(client, "other", b"beside")
    write(client, "t", SECRET)
    cut = client.tail_cut("s", "t")
    write(client, "t", PUBLIC)
    assert purge(server) == 0  # stores everything: chunks begin with what is truncated next
    assert files_with(tmp_path / "data", SECRET)
    client.truncate_stream(cut)
    assert purge(server, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(segment["offset"] for segment in found["segments"]) == sorted(cut.offsets.values())
    assert files_with(tmp_path / "data", SECRET) == []
    assert files_with(tmp_path / "data", PUBLIC)
    assert len(read_all(client, "t")) == len(read_all(client, "other")) == EVENTS
    write(client, "t", PUBLIC, 10)
    server.restart()
    assert len(read_all(client, "t")) == EVENTS + 10
    assert files_with(tmp_path / "data", SECRET) == []


def test_a_sealed_stream_is_truncated_at_every_door_and_purged(server, tmp_path, capsys):
    server, client = server
    write(client, "other", b"beside")
    write(client, "t", SECRET)
    cut = client.tail_cut("s", "t")
    write(client, "t", PUBLIC)
    client.seal_stream("s", "t")
    assert purge(server) == 0
    assert files_with(tmp_path / "data", SECRET)
    client.truncate_stream(cut)
    assert client.head_cut("s", "t") == cut
    assert len(read_all(client, "t")) == EVENTS
    assert purge(server) == 0
    assert files_with(tmp_path / "data", SECRET) == []
    with pytest.raises(InvalidArgumentError, match="in front of the head"):
        client.truncate_stream(StreamCut.from_offsets("s", "t", dict.fromkeys(cut.offsets, 0)))
    server.restart()
    assert files_with(tmp_path / "data", PUBLIC)
    capsys.readouterr()
    assert main(["stream", "truncate", "s/t", "--to", "tail", "--yes", "--json", "--uri", server.uri]) == 0
    head = StreamCut.from_text(json.loads(capsys.readouterr().out)["head"])
    assert head == client.head_cut("s", "t") != cut
    assert purge(server) == 0
    assert files_with(tmp_path / "data", PUBLIC) == []
    assert read_all(client, "t") == []
    assert client.stream_info("s", "t").sealed
    assert client.delete_stream("s", "t")
    assert len(read_all(client, "other")) == EVENTS


def test_what_was_deleted_is_in_no_file_after_a_purge(server, tmp_path):
    server, client = server
    write(client, "other", SECRET)
    write(client, "t", PUBLIC)
    client.seal_stream("s", "other")
    client.delete_stream("s", "other")
    assert purge(server) == 0
    assert files_with(tmp_path / "data", SECRET) == []
    assert len(read_all(client, "t")) == EVENTS


def test_a_stream_that_does_not_exist_is_refused(server, capsys):
    server, _ = server
    assert main(["stream", "purge", "s/none", "--rest", server.rest_url, "--yes"]) == 2
    assert "has no stream s/none" in capsys.readouterr().err
    request = urllib.request.Request(f"{server.rest_url}/v1/scopes/s/streams/none/purge", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code == 404
