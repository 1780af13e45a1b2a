"""What is wrong with one container is told in its place, and ends the command at its end."""

import json

import pytest

from headrace.cli.inspect.container_failures import ContainerFailures
from headrace.errors import DataCorruptionError, NoSuchSegmentError, SnapshotLostError, StorageReadError

DAMAGE, LOST, UNREAD = DataCorruptionError("bad"), SnapshotLostError("cut"), StorageReadError("silent")
CLOSED = PermissionError(13, "Permission denied")


def fail(failures, container_id, error, *, as_json=False):
    with failures.collected(container_id, json=as_json) as document:
        document["segments"] = 3
        raise error


@pytest.mark.parametrize(
    ("errors", "worst"),
    [
        ([CLOSED, UNREAD, LOST, DAMAGE], DataCorruptionError),
        ([CLOSED, UNREAD, LOST], SnapshotLostError),
        ([CLOSED, UNREAD], StorageReadError),
        ([CLOSED], OSError),
    ],
)
def test_the_worst_failure_ends_the_command_and_all_are_told(errors, worst, capsys):
    failures = ContainerFailures()
    for container_id, error in enumerate(errors):
        fail(failures, container_id, error)
    with pytest.raises(worst) as raised:
        failures.raise_worst()
    shown = capsys.readouterr().out
    for container_id, error in enumerate(errors):
        assert f"container {container_id}: {error}" in str(raised.value)
        assert f"container {container_id}: {error}\n" in shown


def test_a_document_is_printed_as_far_as_it_was_filled(capsys):
    failures = ContainerFailures()
    fail(failures, 1, DAMAGE, as_json=True)
    with failures.collected(2, json=True) as document:
        document["segments"] = 5
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"container": 1, "segments": 3, "problem": "bad"}
    assert second == {"container": 2, "segments": 5}


@pytest.mark.parametrize(
    "error", [BrokenPipeError(32, "nobody reads"), NoSuchSegmentError("s"), KeyError("bug")]
)
def test_what_is_not_wrong_with_the_container_ends_the_command_at_once(error, capsys):
    failures = ContainerFailures()
    with pytest.raises(type(error)):
        fail(failures, 1, error, as_json=True)
    assert capsys.readouterr().out == ""
    failures.raise_worst()
