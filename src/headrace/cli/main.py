"""Entry of the ``headrace`` command: executes a verb, turns errors into one line and an exit code.

Importing this module and printing help must stay cheap: nothing of the system is imported before its verb is
executed.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper, UnsupportedOperation
from pathlib import Path
from typing import Final, NoReturn

import click
from click.exceptions import Exit, NoArgsIsHelpError

from headrace.cli.nouns import COMPLETE_VARIABLE, ROOT
from headrace.cli.output import printable
from headrace.cli.verbs import URI_META
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
    words = list(sys.argv[1:] if arguments is None else arguments)
    said: dict[str, object] = {}  # what the verb was pointed at
    try:
        code = _execute(words, said)
        sys.stdout.flush()
    except click.UsageError as error:
        return _refuse(error)
    except HeadraceError as error:
        where = said.get(URI_META)
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
    return code


def _execute(words: list[str], said: dict[str, object]) -> int:
    """Execute one verb, or print help; ``said`` has what it was pointed at, also if it fails."""
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(ROOT, {}, "headrace", COMPLETE_VARIABLE, instruction)
    if not words:
        words = ["--help"]
    elif words[0] == "help":
        words = [*words[1:], "--help"]
    try:
        with ROOT.make_context("headrace", words) as context:
            try:
                ROOT.invoke(context)
            finally:
                said.update(context.meta)
    except Exit as ended:
        return ended.exit_code
    return 0


def _refuse(error: click.UsageError) -> int:
    """Say what is wrong with the words that were given, between the right ones and where to read of them."""
    if isinstance(error, NoArgsIsHelpError):
        print(error.format_message(), file=sys.stderr)
        return error.exit_code
    if error.ctx is not None:
        print(error.ctx.get_usage(), file=sys.stderr)
    _fail(error.format_message(), error.exit_code)
    if error.ctx is not None:
        print(f"Try '{error.ctx.command_path} --help'.", file=sys.stderr)
    return error.exit_code


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
