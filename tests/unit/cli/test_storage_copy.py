"""``headrace storage copy`` between directories."""

import json

import pytest

from headrace.cli.main import main

pytestmark = pytest.mark.real_loop


@pytest.fixture
def copy(tmp_path, capfd):
    def copy(*words, source=tmp_path / "source", target=tmp_path / "target" / "inner"):
        code = main(["storage", "copy", "--from", f"file://{source}", "--to", f"file://{target}", *words])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return copy


def make(root, **objects):
    for name, content in objects.items():
        (root / "demo").mkdir(parents=True, exist_ok=True)
        (root / "demo" / f"{name}.chunk").write_bytes(content)


def found(root):
    return {path.name: path.read_bytes() for path in root.rglob("*.chunk")}


def test_a_directory_is_copied_and_nothing_is_left_for_a_second_run(copy, tmp_path):
    make(tmp_path / "source", a=b"a" * 100, b=b"")
    code, out, _ = copy("--verify")
    assert code == 0
    assert "2 objects with 100 bytes: 2 copied with 100 bytes" in out
    assert found(tmp_path / "target") == found(tmp_path / "source")
    code, out, _ = copy("--json")
    report = json.loads(out)
    assert (code, report["copied"], report["skipped"]) == (0, 0, 2)


def test_what_is_different_is_told_and_the_exit_code_says_so(copy, tmp_path):
    make(tmp_path / "source", a=b"aaa")
    make(tmp_path / "target" / "inner", a=b"aXa")
    assert copy()[0] == 0, "lengths are the same"
    code, out, err = copy("--verify")
    assert (code, "1 objects of the target" in err) == (6, True)
    assert "different: demo/a has other bytes in the target" in out


def test_wrong_places_are_refused(copy, tmp_path):
    assert "no directory" in copy()[2]
    make(tmp_path / "source", a=b"aaa")
    assert copy(target=tmp_path / "source")[0] == 2
    assert "is in the other" in copy(target=tmp_path / "source" / "demo")[2]
    assert "is in the other" in copy(source=tmp_path / "source" / "demo", target=tmp_path / "source")[2]
    (tmp_path / "empty").mkdir()
    code, _, err = copy(source=tmp_path / "empty")
    assert (code, "there is nothing in" in err) == (2, True)
    assert "above zero" in copy("--requests-per-s", "-1")[2]
