"""The nouns of the command line. Each has a module of its own, imported when one of its words is wanted."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

import click

from headrace import __version__
from headrace.cli.verbs import Noun

_NOUNS: Final = {
    "standalone": (
        "headrace.cli.server.standalone_command",
        "Run controller, segment store and REST in one process until SIGTERM or Ctrl-C.",
    ),
    "segmentstore": (
        "headrace.cli.server.segmentstore_command",
        "Run a segment store by itself until SIGTERM or Ctrl-C: the data protocol, health, metrics.",
    ),
    "status": (
        "headrace.cli.server.status_command",
        "Say whether a server is ready, what it holds and what waits; exit code 4 if it is not ready.",
    ),
    "scope": ("headrace.cli.scope.command", "List, create and delete scopes."),
    "stream": (
        "headrace.cli.stream.command",
        "Create, describe, scale, truncate, seal and delete streams.",
    ),
    "event": ("headrace.cli.event.command", "Write events to a stream, read events from it."),
    "group": (
        "headrace.cli.group.command",
        "See how far reader groups are; make checkpoints, reset and delete them.",
    ),
    "table": (
        "headrace.cli.table.command",
        "Create key-value tables, put, get, scan and remove their entries.",
    ),
    "controller": (
        "headrace.cli.controller.command",
        "Run a controller of a cluster until SIGTERM or Ctrl-C; see what controllers do in the background.",
    ),
    "cluster": (
        "headrace.cli.cluster.command",
        "Make a cluster, see who takes part in it and who serves what.",
    ),
    "user": ("headrace.cli.user.command", "Add, list and remove the users of a users file."),
    "inspect": (
        "headrace.cli.inspect.command",
        "Look into the data of a server; nothing is ever changed.",
    ),
    "check": (
        "headrace.cli.check.command",
        "Check the data of a server, stopped or running; nothing is ever changed.",
    ),
    "storage": (
        "headrace.cli.storage.command",
        "Check, mend, copy and move what is in long-term storage.",
    ),
    "log": (
        "headrace.cli.log.command",
        "Move the write-ahead log of a stopped system to another place.",
    ),
    "context": (
        "headrace.cli.context.command",
        "Give servers names, and say which one is meant where none is given.",
    ),
    "config": (
        "headrace.cli.config.command",
        "Show the settings of a server and where they come from; check a file of them.",
    ),
    "bench": (
        "headrace.cli.bench.command",
        "Measure writes, reads and latency of a running server, in a scope that is deleted in the end.",
    ),
    "demo": (
        "headrace.cli.demo.command",
        "Send the flights of New York 2013 through a durable stream and PySpark; check every total.",
    ),
    "completion": (
        "headrace.cli.completion.command",
        "Print what makes a shell complete nouns, verbs, options and names of streams.",
    ),
}
"""Module and summary of each; ``declare`` of the module returns it."""

COMPLETE_VARIABLE: Final = "_HEADRACE_COMPLETE"
"""In the environment if a shell asks what a word may become; ``headrace completion`` prints what sets it."""

_SUMMARY: Final = "Tiered streaming storage: durable, ordered, elastic streams of events."

_EPILOG: Final = """\
Options may stand anywhere among the words; headrace NOUN VERB --help lists them.

Exit codes: 0 done, 2 wrong request, 3 ask another server, or none answers, 4 try again later,
5 outcome unknown, 6 corrupt data, 1 anything else.

Example:
  headrace standalone --in-memory
  headrace scope create demo
  headrace stream create demo/orders --segments 2
  headrace event write demo/orders hello world
  headrace event read demo/orders"""


class Root(Noun):
    """The command itself."""

    def __init__(self) -> None:
        super().__init__("headrace", _SUMMARY, _EPILOG)
        self.subcommand_metavar = "NOUN VERB ..."
        self.context_settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        click.version_option(__version__, message="headrace %(version)s")(self)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(_NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if cmd_name in _NOUNS and cmd_name not in self.commands:
            module, summary = _NOUNS[cmd_name]
            declare: Callable[[str, str], click.Command] = import_module(module).declare
            self.commands[cmd_name] = declare(cmd_name, summary)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _NOUNS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            name = error.command_name
            meant = [f"headrace {' '.join(words)}" for words, _ in self.walk(ctx) if words[1:] == (name,)]
            if not meant:
                raise click.NoSuchCommand(name, possibilities=_NOUNS, ctx=ctx) from None
            asked = [each for each in meant if any(each.split()[1] in word for word in args[1:2])]
            guess = " or ".join(map(repr, asked or meant))
            raise click.UsageError(f"{error.message} Did you mean {guess}?", ctx) from None


ROOT: Final = Root()
