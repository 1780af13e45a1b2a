"""Entry of the ``headrace`` command: executes a verb, turns errors into one line and an exit code.

Importing this module and printing help must stay cheap, so this is plain argparse and nothing of the system
is imported before its verb is executed.
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper, UnsupportedOperation
from pathlib import Path
from typing import Final, NoReturn

from headrace import __version__
from headrace.cli.commands import (
    check,
    controller,
    demo,
    event,
    inspect,
    scope,
    standalone,
    storage,
    stream,
    table,
    user,
)
from headrace.cli.output import printable
from headrace.cli.verbs import HelpFormatter
from headrace.errors import (
    EXIT_CODES,
    HeadraceError,
    RequestError,
    StorageReadError,
    StorageWriteError,
    UnknownOutcomeError,
    UnreachableError,
    family_of,
)

_FAILURE: Final = 1
"""Exit code of what belongs to no error family, for instance an address that is taken."""

_INTERRUPTED: Final = 130

_OF_SERVERS: Final = (UnknownOutcomeError, UnreachableError)
"""Errors whose sentence needs the address of the server that was asked."""
_OF_STORES: Final = (StorageReadError, StorageWriteError)

_OUTLIVING: Final = frozenset({"opendal", "hdfs_native"})
"""Libraries with threads of their own, which go on to the end of the process: one that wants the interpreter
while it is taken down aborts the process, and its exit code is gone.
"""

_NOUNS: Final = (standalone, scope, stream, event, table, controller, user, inspect, check, storage, demo)

_EPILOG: Final = """\
Exit codes: 0 done, 2 wrong request, 3 ask another server, or none answers, 4 try again later,
5 outcome unknown, 6 corrupt data, 1 anything else.

Example:
  headrace standalone --in-memory
  headrace scope create demo
  headrace stream create demo/orders --segments 2
  headrace event write demo/orders hello world
  headrace event read demo/orders
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headrace",
        description="Tiered streaming storage: durable, ordered, elastic streams of events.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headrace {__version__}")
    nouns = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for noun in _NOUNS:
        noun.register(nouns)
    return parser


def command() -> NoReturn:
    """Run the command of this process, and exit with its code."""
    codes: list[int] = []
    atexit.register(_leave, codes)  # the first is called last
    codes.append(main())
    sys.exit(codes[0])


def _leave(codes: list[int]) -> None:
    """Leave the interpreter as it is, if a library may still want it."""
    if not codes or _OUTLIVING.isdisjoint(sys.modules):
        return
    for output in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            output.flush()
    os._exit(codes[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_standard_streams()
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text
    chosen = build_parser().parse_args(arguments)
    try:
        chosen.run(chosen)
        sys.stdout.flush()
    except HeadraceError as error:
        where = getattr(chosen, "uri", "")
        text = (
            f"{where}: {error}"
            if where and isinstance(error, _OF_SERVERS) and not isinstance(error, _OF_STORES)
            else str(error)
        )
        return _fail(text or type(error).__name__, EXIT_CODES.get(family_of(error), _FAILURE))
    except UnicodeEncodeError as error:
        return _fail(f"{error.object!r} is not UTF-8, as names are", EXIT_CODES[RequestError])
    except BrokenPipeError:
        _discard_output()
        return _FAILURE
    except OSError as error:
        if isinstance(error.__cause__, _OF_STORES):  # said so to those who know files only
            return _fail(str(error.__cause__), EXIT_CODES[family_of(error.__cause__)])
        return _fail(str(error), _FAILURE)
    except KeyboardInterrupt:
        _discard_output()
        return _INTERRUPTED
    return 0


def _open_standard_streams() -> None:
    """Open the null device as each standard stream that is closed: the next files and sockets would get their
    numbers, and with them what libraries write to the standard error.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it takes the lowest number there is
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the process ends


def _discard_output() -> None:
    """The reader of our output is gone, or stalled: let the flush at exit neither fail nor wait."""
    try:
        stdout = sys.stdout.fileno()
    except UnsupportedOperation:
        return  # an embedder has put an object of its own there: no pipe, so nothing to wait for
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stdout)
    os.close(nowhere)


def _fail(text: str, code: int) -> int:
    """Say on one line what is wrong; what a peer or a file name has put into it cannot steer a terminal."""
    print("headrace:", printable(" ".join(text.split())), file=sys.stderr)
    return code


if __name__ == "__main__":
    command()
