"""`headrace user` changes a file whole or not at all, one change after the other, and shows no secret."""

import io
import json
import os
import pty
import select
import subprocess
import sys

import pytest

from headrace.cli.main import main
from headrace.security.users_on_disk import change_users, read_users
from tests import programs

COMMAND = (sys.executable, "-m", "headrace.cli.main", "user")
ALL = "prn::*,READ_UPDATE"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "users"


@pytest.fixture
def run(file, monkeypatch, capsys):
    def run(*words, password=b"secret\n"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(password)))
        code = main(["user", *words, "--file", str(file)])
        return code, *capsys.readouterr()

    return run


def add(run, name, *words, **more):
    return run("add", name, "--grant", ALL, "--password-stdin", *words, **more)


def users_of(file):
    return read_users(str(file))[0]


def test_a_user_is_added_listed_and_removed(run, file):
    assert add(run, "ada", "--grant", "*,NONE") == (0, "", "")
    assert add(run, "bob") == (0, "", "")
    code, out, _ = run("list", "--json")
    assert code == 0
    assert json.loads(out) == [
        {"user": "ada", "grants": [ALL, "prn::*,NONE"]},
        {"user": "bob", "grants": [ALL]},
    ]
    assert run("list")[1].splitlines()[1:] == [f"ada   {ALL};prn::*,NONE", f"bob   {ALL}"]
    assert users_of(file).by_name["ada"].digest.matches("secret")
    assert run("remove", "ada") == (0, "", "")
    assert run("remove", "ada") == (2, "", f"headrace: {file}: user ada does not exist\n")
    assert run("remove", "ada", "--if-exists") == (0, "", "")
    assert list(users_of(file).by_name) == ["bob"]


def test_a_new_file_is_its_owners_alone_and_another_mode_stays_with_a_warning(run, file):
    add(run, "ada")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    code, out, err = add(run, "bob")
    assert (code, out) == (0, "")
    assert err.startswith(f"warning: {file} has mode 0644")
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(file.parent.iterdir()) == [file]


def test_a_user_is_replaced_only_on_purpose(run, file):
    add(run, "ada")
    before = file.read_bytes()
    code, _, err = add(run, "ada", password=b"other")
    assert code == 2
    assert err == f"headrace: {file}: user ada exists already; add --replace\n"
    assert file.read_bytes() == before
    assert add(run, "ada", "--replace", password=b"other") == (0, "", "")
    assert users_of(file).by_name["ada"].digest.matches("other")


@pytest.mark.parametrize("password", [b"", b"\n", b"a\r\n", b"a\n\n", b"\xff", b"x" * 1025])
def test_a_bad_password_makes_no_file(run, file, password):
    code, out, err = add(run, "ada", password=password)
    assert (code, out) == (2, "")
    assert err.startswith("headrace: the password ")
    assert not file.exists()


def test_the_longest_password_may_have_an_end_of_line(run, file):
    assert add(run, "ada", password=b"x" * 1024 + b"\n")[0] == 0
    assert users_of(file).by_name["ada"].digest.matches("x" * 1024)


@pytest.mark.parametrize("words", [("a:b", "--grant", ALL), ("ada", "--grant", "sales,READ")])
def test_a_bad_name_or_grant_makes_no_file(run, file, words):
    code, _, err = run("add", *words, "--password-stdin")
    assert code == 2
    assert "name" in err or "'sales,READ'" in err
    assert not file.exists()


def test_a_damaged_file_is_refused_by_line_and_not_changed(run, file):
    file.write_text("# mine\nada:hunter2:prn::*,READ\n")
    for result in (add(run, "bob"), run("list"), run("remove", "ada")):
        code, out, err = result
        assert (code, out) == (2, "")
        assert err.startswith(f"headrace: {file}: line 2, user 'ada': ")
        assert "hunter2" not in err
    assert file.read_text() == "# mine\nada:hunter2:prn::*,READ\n"


def test_without_a_file_there_is_nothing_to_list_or_remove(run, file):
    assert run("list")[0] == 1
    assert run("remove", "ada")[0] == 1
    assert not file.exists()


def test_a_link_stays_one(run, file, tmp_path):
    target = tmp_path / "elsewhere" / "real"
    target.parent.mkdir()
    file.symlink_to(target)
    assert add(run, "ada")[0] == 0
    assert add(run, "bob")[0] == 0
    assert file.is_symlink()
    assert list(users_of(target).by_name) == ["ada", "bob"]


def test_nothing_remains_of_a_change_that_fails(file, run):
    add(run, "ada")
    before = file.read_bytes()

    def fail(users):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        change_users(str(file), fail)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.slow
def test_no_user_is_lost_by_changes_at_the_same_time(file):
    names = [f"user{n}" for n in range(6)]
    arguments = ("--file", str(file), "--grant", ALL, "--password-stdin")
    adders = [programs.Popen((*COMMAND, "add", name, *arguments), stdin=subprocess.PIPE) for name in names]
    for adder in adders:
        adder.stdin.write(b"secret")
        adder.stdin.close()
    assert [adder.wait(60) for adder in adders] == [0] * len(names)
    assert set(users_of(file).by_name) == set(names)


def asked(file, *answers):
    """Run `user add` at a terminal that gives each answer once it is asked; returns exit code and output."""
    ours, theirs = pty.openpty()
    try:
        adder = programs.Popen(
            (*COMMAND, "add", "ada", "--file", str(file), "--grant", ALL),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        seen = b""
        for answer in answers:
            prompts = seen.count(b": ")
            while seen.count(b": ") == prompts:
                assert select.select([ours], [], [], 60)[0]
                seen += os.read(ours, 4096)
            os.write(ours, answer + b"\n")
        code = adder.wait(60)
        while select.select([ours], [], [], 0)[0]:
            seen += os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)
    return code, seen


@pytest.mark.slow
def test_a_password_is_asked_for_twice_and_not_shown(file):
    code, seen = asked(file, b"hunter2", b"hunter2")
    assert code == 0, seen
    assert b"hunter2" not in seen
    assert users_of(file).by_name["ada"].digest.matches("hunter2")


@pytest.mark.slow
@pytest.mark.parametrize("answers", [(b"hunter2", b"hunter3"), (b"",)])
def test_a_mistyped_password_makes_no_file(file, answers):
    code, seen = asked(file, *answers)
    assert code == 2, seen
    assert b"hunter" not in seen
    assert not file.exists()


def test_without_a_terminal_the_option_is_named(run, file):
    code, _, err = run("add", "ada", "--grant", ALL)
    assert code == 2
    assert "--password-stdin" in err
    assert not file.exists()
