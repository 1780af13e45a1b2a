"""A program that is forked from one that has imported everything is the process that ``exec`` would make."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.local_server import HEADRACE
from tests import programs
from tests.cpu_seconds import CpuSeconds

pytestmark = pytest.mark.cluster

SHOW = """
import os, signal, sys, threading
print(sys.argv, __name__, os.getcwd(), os.getppid())
print(os.environ["IS_HERE"] == "yes \\udcff", "HOME" in os.environ, [sys.path[0]])
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), threading.active_count())
print(sys.stdin.read(), sys.stdout.encoding, sys.stdout.errors, os.getsid(0) == os.getpid())
print(sorted(os.listdir("/proc/self/fd")), file=sys.stderr)
"""

SCRIPT = """
import os, sys
import beside
print(sys.argv, __name__, __file__, os.getcwd(), sys.path[0], beside.NAME)
raise ValueError("why")
"""

STARTER = """
import sys
from tests import programs
process = programs.Popen([sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
                         stdin=-1, stdout=-1)
process.stdout.readline()
print(process.pid, flush=True)
sys.stdin.read()
"""


def both(words, **options):
    """Return what a process tells that was forked, and one that was executed."""
    return [
        (done.returncode, done.stdout, done.stderr)
        for run in (programs.run, subprocess.run)
        for done in [run(words, capture_output=True, text=True, check=False, timeout=120, **options)]
    ]


def test_it_sees_what_an_executed_one_sees(tmp_path):
    environment = {**os.environ, "IS_HERE": "yes \udcff"}
    environment.pop("HOME", None)
    one, other = both(
        [sys.executable, "-c", SHOW, "a", "b"],
        cwd=tmp_path,
        env=environment,
        input="some\ninput",
        start_new_session=True,
    )
    assert one == other
    assert one[1].startswith(f"['-c', 'a', 'b'] __main__ {tmp_path} {os.getpid()}\nTrue False ['']\n")


def test_a_file_sees_what_an_executed_one_sees(tmp_path):
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    for each in (place, elsewhere):
        each.mkdir()
    (place / "beside.py").write_text("NAME = __name__")
    (place / "program.py").write_text(SCRIPT)
    for words, directory in ((["program.py", "a"], place), ([str(place / "program.py")], elsewhere)):
        one, other = both([sys.executable, *words], cwd=directory)
        assert one == other
        assert one[0] == 1
        assert f"__main__ {place}/program.py {directory} {place} beside" in one[1]


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(7)",
        "1 / 0",
        "import os; os._exit(3)",
        "raise SystemExit('why')",
        "exit()",
        "x = (",
    ],
)
def test_its_end_is_that_of_an_executed_one(program):
    one, other = both([sys.executable, "-c", program])
    assert one == other


def test_the_command_says_the_same():
    one, other = both([*HEADRACE, "stream", "nothing"])
    assert one == other
    assert one[0] == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_for_it_alone(number):
    program = "import time; print(1, flush=True); time.sleep(1000)"
    with programs.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"1\n"
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == -number
    assert not Path(f"/proc/{process.pid}").exists()


def test_what_it_uses_is_counted():
    used = CpuSeconds()
    program = "import os\nwhile os.times().user < 0.3: pass"
    with used.counted("tests/x/test_y.py"):
        assert programs.run([sys.executable, "-c", program]).returncode == 0
    assert used.by_folder["x"] >= 0.3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing waits for a process of others here")
def test_it_reads_the_end_of_tests_that_are_killed():
    with subprocess.Popen(
        [sys.executable, "-c", STARTER],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as starter:
        child = int(starter.stdout.readline())
        watched = os.pidfd_open(child)
        try:
            starter.kill()
            assert select.select([watched], [], [], 60)[0]
        finally:
            os.close(watched)


def test_a_command_in_this_process_does_not_have_the_next_ones_executed(monkeypatch):
    """It tells gRPC to be quiet by a variable, as the process that forks has told it."""
    show = [sys.executable, "-c", "import sys; print('headrace.processes.standalone' in sys.modules)"]
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    assert programs.run(show, capture_output=True, text=True).stdout == "True\n"
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    assert programs.run(show, capture_output=True, text=True).stdout == "True\n"
    monkeypatch.setenv("GRPC_VERBOSITY", "DEBUG")
    assert programs.run(show, capture_output=True, text=True).stdout == "False\n"
