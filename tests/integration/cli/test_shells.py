"""The completion that ``headrace completion`` prints, in the shells themselves, each with a new account."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from headrace.testing import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
LOAD = {
    "bash": (".bashrc", 'eval "$(headrace completion bash)"\n'),
    "zsh": (".zshrc", 'eval "$(headrace completion zsh)"\n'),
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server"), "--in-memory") as server:
        yield server.uri


@pytest.fixture
def account(tmp_path, uri):
    """The environment of an account that has the command, and nothing in its home."""
    command = tmp_path / "bin" / "headrace"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace.cli.main "$@"\n')
    command.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    path = f"{command.parent}:{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "TERM": "xterm", "HEADRACE_URI": uri, "LANG": "C.UTF-8"}


@pytest.mark.parametrize("shell", LOAD)
def test_a_new_account_completes_words_once_it_has_what_is_printed(account, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    name, load = LOAD[shell]
    (tmp_path / "home" / name).write_text(load)
    done = tmp_path / "done"
    at_shell, inside = pty.openpty()
    with subprocess.Popen(
        [shell, "-i"], env=account, stdin=inside, stdout=inside, stderr=inside, start_new_session=True
    ) as process:
        os.close(inside)
        said = b""

        def wait_for(holds):
            nonlocal said
            deadline = time.monotonic() + 120
            while not holds() and time.monotonic() < deadline:
                if select.select([at_shell], [], [], 0.05)[0]:
                    said += os.read(at_shell, 65536)
            assert holds(), said.decode(errors="replace")

        ready = tmp_path / "ready"
        os.write(at_shell, f"touch {ready}\r".encode())
        wait_for(ready.exists)
        os.write(at_shell, b"headrace scope crea\t")
        wait_for(lambda: b"create" in said)
        os.write(at_shell, f"in-{shell} && touch {done}\r".encode())
        wait_for(done.exists)
        assert b"not found" not in said
        process.kill()
    os.close(at_shell)


def test_fish_completes_words_from_what_is_printed(account):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = 'headrace completion fish | source; complete -C "headrace scope crea"'
    done = subprocess.run(
        ["fish", "-c", script], env=account, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split()[:1] == ["create"]
