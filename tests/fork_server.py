"""A process that has imported the program, and forks a child for each program that a test asks for.

A program takes more CPU for its imports than for all else that most tests have it do. ``tests/programs.py``
starts this process, and is the parent of the children.
"""

import gc
import io
import json
import os
import pkgutil
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import headrace.cli

MESSAGE_BYTES_MAX = 128 * 1024

_MODULES = {"headrace.cli.main": "command", "headrace.testing.tether": "main"}
"""Those of ``python -m``, and what is called in them."""

_IMPORTED = (
    "concurrent.futures.thread",
    "encodings.idna",
    "grpc.experimental",
    "headrace.client.blocking",
    "headrace.processes.cluster_store",
    "headrace.processes.controller_server",
    "headrace.processes.standalone",
    "headrace.processes.store_server",
    "headrace.runtime.settings_sources",
    "tomllib",
    "uvloop",
)
"""Like the verbs, they start no thread and leave no file open. What else it needs, a program imports."""


def can_run(words):
    """Tell whether a child can do what Python would with these words."""
    match words:
        case ["-c", _, *_]:
            return True
        case ["-m", module, *_]:
            return module in _MODULES
        case [file, *_]:
            return file.endswith(".py")
    return False


def _main(control):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that of a terminal is for the tests, which end us
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # as clients and servers have it when they import gRPC
    for name in (*_MODULES, *_IMPORTED):
        import_module(name)
    for verb in pkgutil.walk_packages(headrace.cli.__path__, "headrace.cli."):
        import_module(verb.name)
    _check_that_a_child_has_everything(control)
    gc.collect()
    gc.freeze()  # children do not copy pages to count references to what nobody frees
    wanted, descriptors = _serve(control)
    control.close()
    _become(wanted, descriptors)
    return wanted["words"]


def _check_that_a_child_has_everything(control):
    """A thread is not forked; a file would be of two processes."""
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, threads
    known = {str(number) for number in (0, 1, 2, control.fileno())}
    listed = list(Path("/proc/self/fd").iterdir())  # with what lists them
    files = [each.readlink() for each in listed if each.exists() and each.name not in known]
    assert not files, files


def _serve(control):
    """Answer the tests; return, in a child, what it shall be. The process itself ends with the tests."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES_MAX, 3)
        if not message:
            os._exit(0)
        if between := os.fork():
            os.waitpid(between, 0)
            for number in descriptors:
                os.close(number)
            control.send(b"adopted")
        elif _is_orphan(control):
            return json.loads(message), descriptors


def _is_orphan(control):
    """Return in a child of ours, once the tests have it: the next ancestor that wants orphans."""
    parent = os.getpid()
    if child := os.fork():
        control.send(str(child).encode())
        os._exit(0)
    while os.getppid() == parent:
        os.sched_yield()
    return True


def _become(wanted, descriptors):
    """Make this process what ``exec`` would have made it."""
    for number, received in enumerate(descriptors):
        os.dup2(received, number)
        os.close(received)
    if wanted["new_session"]:
        os.setsid()
    os.chdir(wanted["directory"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[0] = _first_of_path(wanted["words"][0], wanted["directory"])
    sys.stdin = sys.__stdin__ = _text(sys.stdin, 0, "r")
    sys.stdout = sys.__stdout__ = _text(sys.stdout, 1, "w")
    sys.stderr = sys.__stderr__ = _text(sys.stderr, 2, "w")


def _first_of_path(option, directory):
    """Return where a program of this option looks for modules first."""
    match option:
        case "-c":
            return ""
        case "-m":
            return directory
        case file:
            return str(Path(file).resolve().parent)


def _text(like, number, mode):
    """Return a standard stream of this number, whatever was learnt of the file that had it before."""
    file = io.open(number, f"{mode}b", closefd=False)  # noqa: SIM115, UP020 - until the process ends
    lines = number == 2 or file.raw.isatty()
    text = io.TextIOWrapper(file, like.encoding, like.errors, line_buffering=lines)
    text.mode = mode
    return text


def _run(words):
    option, *rest = words
    what, *arguments = rest or [""]
    if option == "-m":
        module = sys.modules[what]
        sys.argv = [module.__file__, *arguments]
        getattr(module, _MODULES[what])()
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    if option == "-c":
        sys.argv = [option, *arguments]
        program, name = what, "<string>"
    else:
        sys.argv = words
        main.__file__ = name = os.path.abspath(option)  # noqa: PTH100 - a link stays one
        program = Path(name).read_bytes()
    try:
        exec(compile(program, name, "exec", dont_inherit=True), main.__dict__)
    except Exception as error:
        error = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


if __name__ == "__main__":
    _run(_main(socket.socket(fileno=int(sys.argv[1]))))
