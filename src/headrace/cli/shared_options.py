"""Parameters that several verbs have, and the kinds of parameters they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from headrace.cli.completion.names import complete_scope, complete_stream, complete_table
from headrace.runtime.client_variables import COORDINATOR_VARIABLE, TLS_CA_VARIABLE, URI_VARIABLE

URI_DEFAULT: Final = "tcp://localhost:9090"
REST_DEFAULT: Final = "127.0.0.1:10080"
DATA_DIR_DEFAULT: Final = "headrace-data"
DATA_DIR_VARIABLE: Final = "HEADRACE_DATA_DIR"
"""What the server reads as well: both look at the same data."""


class Several(click.Option):
    """An option that may be given several times, or takes all words of its type that follow it."""

    def __init__(self, *names: str, type: click.ParamType[Any], metavar: str, help: str) -> None:  # noqa: A002 - click's
        super().__init__(names, type=type, metavar=f"{metavar}...", help=help, multiple=True)

    def spread(self, words: list[str]) -> list[str]:
        """Repeat the option before each value but the first one."""
        spread: list[str] = []
        follows = 0
        for place, word in enumerate(words):
            if word == "--":
                return spread + words[place:]
            name, equals, _ = word.partition("=")
            if name in self.opts:
                follows = 2 if equals else 1
            elif follows and self._is_value(word):
                if follows > 1:
                    spread.append(self.opts[-1])
                follows += 1
            else:
                follows = 0
            spread.append(word)
        return spread

    def _is_value(self, word: str) -> bool:
        try:
            self.type.convert(word, self, None)
        except click.BadParameter:
            return False
        return True


class AlsoOption(click.Option):
    """An option that has further words, which are taken and not shown."""

    def __init__(self, shown: Sequence[str], also: Sequence[str], text: str, **attributes: Any) -> None:
        super().__init__(shown, help=text, **attributes)
        self._also = also

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=self._also, dest=self.name, action="store", nargs=1)


def store_option(
    shown: str, parameter: str, text: str, *, required: bool, metavar: str = "URI"
) -> click.Option:
    """Declare the store that a verb reads: shown as ``--storage`` where it is that of a system, as ``--from``
    elsewhere; either word is taken.
    """
    also = [word for word in ("--storage", "--from") if word != shown]
    return AlsoOption([shown, parameter], also, text, required=required, metavar=metavar)


class NotEmpty(click.ParamType[str]):
    """Refuses what an empty variable of a script leaves: the server would do without what was wanted."""

    name = "text"

    def __init__(self, what: str) -> None:
        self._what = what

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail(f"{self._what} is empty", param, ctx)
        return value


class SegmentId(click.ParamType[int]):
    """A segment of a stream: ``number#epoch``, or both in one number of 64 bits."""

    name = "segment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from headrace.errors import InvalidArgumentError
        from headrace.model.segment_id import parse_segment_id

        try:
            return parse_segment_id(str(value))
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)


def option(*names: str, help: str, metavar: str | None = None, **attributes: Any) -> click.Option:  # noqa: A002
    """Declare an option with a value; ``names`` may end with that of the parameter."""
    return click.Option(names, help=help, metavar=metavar, **attributes)


def flag(*names: str, help: str) -> click.Option:  # noqa: A002
    """Declare an option without a value."""
    return click.Option(names, help=help, is_flag=True)


def argument(name: str, metavar: str, help: str | None = None, **attributes: Any) -> click.Argument:  # noqa: A002
    """Declare a word; with ``nargs=-1`` any number of them, at least one if ``required``."""
    if attributes.get("nargs", 1) < 0:
        metavar = f"{metavar}..." if attributes.get("required") else f"[{metavar}...]"
    return click.Argument([name], metavar=metavar, help=help, **attributes)


URI: Final = option(
    *("-c", "--controller", "--uri", "uri"),
    metavar="URI",
    envvar=URI_VARIABLE,
    default=URI_DEFAULT,
    help=f"controller to connect to (default: ${URI_VARIABLE}, or {URI_DEFAULT})",
)
REST: Final = option(
    "--rest",
    metavar="HOST:PORT",
    default=REST_DEFAULT,
    help=f"REST address, behind https:// if it speaks TLS (default: {REST_DEFAULT})",
)
TLS_CA: Final = option(
    "--tls-ca",
    metavar="FILE",
    help=f"authorities to trust, in PEM form (default: ${TLS_CA_VARIABLE}, or the system's)",
)
COORDINATOR: Final = option(
    "--coordinator",
    metavar="zk://HOST:PORT/ROOT",
    envvar=COORDINATOR_VARIABLE,
    type=NotEmpty("the URI"),
    help=f"what the processes of a cluster agree through (default: ${COORDINATOR_VARIABLE})",
)
JSON: Final = flag("-j", "--json", "as_json", help="answer in JSON")
VERBOSE: Final = click.Option(
    ["-v", "--verbose"], count=True, help="show log lines on stderr; -vv: also those for debugging"
)
DATA_DIR: Final = option(
    *("-d", "--data-dir"),
    metavar="DIR",
    envvar=DATA_DIR_VARIABLE,
    default=DATA_DIR_DEFAULT,
    help=f"where the data live (default: ${DATA_DIR_VARIABLE}, or {DATA_DIR_DEFAULT})",
)
YES: Final = flag("-y", "--yes", help="do it without asking")

CONNECTION: Final = (URI, TLS_CA, JSON, VERBOSE)
"""What verbs take that ask a controller."""
REST_SERVER: Final = (REST, TLS_CA, JSON, VERBOSE)
"""What verbs take that ask the REST interface."""
DATA: Final = (DATA_DIR, JSON, VERBOSE)
"""What verbs take that look into a data directory."""

SCOPE: Final = argument("scope", "SCOPE", shell_complete=complete_scope)
STREAM: Final = argument("stream", "SCOPE/STREAM", shell_complete=complete_stream)
TABLE: Final = argument("table", "SCOPE/TABLE", shell_complete=complete_table)
