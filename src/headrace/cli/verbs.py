"""How nouns and verbs are declared. What a verb does is imported when it is executed: help is fast."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import click
from click.core import ParameterSource

from headrace.cli.contexts import ServerContext, give_credentials, used_context
from headrace.cli.servers import Connection, RestServer
from headrace.cli.shared_options import JSON, REST, TLS_CA, URI, VERBOSE, Several
from headrace.errors import HeadraceError

URI_META: Final = "headrace.uri"
"""Where a context says which controller its verb was pointed at."""

_SHARED: Final = {name: option for option in (URI, REST, TLS_CA, JSON, VERBOSE) for name in option.opts}
"""Options that may stand before the noun and the verb as well: they are handed on to the verb."""

_NUMBER: Final = re.compile(r"-\d")


@dataclass(frozen=True, slots=True)
class Later:
    """A function that is imported when it is called."""

    module: str
    name: str

    def load(self) -> Callable[..., None]:
        function: Callable[..., None] = getattr(import_module(self.module), self.name)
        return function

    def __call__(self, **chosen: Any) -> None:
        self.load()(**chosen)


class _EndsWithExamples(click.Command):
    """A command whose epilog is printed as it is written."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")


class Verb(_EndsWithExamples):
    """A command that does something; ``examples`` are complete command lines, one a line.

    Of the options in a group of ``apart`` one at most may be given, of ``needed`` exactly one.
    The function takes what was given by the names of the parameters; instead of ``uri`` and ``tls_ca`` a
    ``connection``, instead of ``rest`` and ``tls_ca`` a ``rest`` that can be asked.
    """

    def __init__(
        self,
        name: str,
        run: Callable[..., None],
        summary: str,
        examples: str,
        *parameters: click.Parameter,
        apart: Sequence[tuple[str, ...]] = (),
        needed: tuple[str, ...] = (),
    ) -> None:
        lines = "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())
        super().__init__(
            name,
            params=list(parameters),
            callback=run,
            help=summary,
            short_help=summary,
            epilog=f"Example:\n{lines}",
        )
        self._apart = [*apart, needed] if needed else list(apart)
        self._needed = needed
        self._named: ServerContext | None = None
        """The server that is meant where none is given, once words are parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for parameter in self.params:
            if isinstance(parameter, Several):
                args = parameter.spread(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if not _NUMBER.match(error.option_name):
                raise
            hint = "Values that begin with '-' stand behind '--'."
            raise click.NoSuchOption(error.option_name, f"{error.message} {hint}", ctx=ctx) from None
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click knows it, and does not say so everywhere
            raise
        if not ctx.resilient_parsing:
            self._check_apart(ctx)
        return rest

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if URI in self.params or REST in self.params:
            try:
                self._named = used_context()
            except HeadraceError:
                if not extra.get("resilient_parsing"):  # a person who types is not interrupted
                    raise
            if self._named is not None:
                extra["default_map"] = self._named.defaults(asks_rest=URI not in self.params)
        return super().make_context(info_name, args, parent, **extra)

    def _settle_context(self, ctx: click.Context) -> None:
        """Take authorities and the user of a named server if its address is taken, else neither."""
        named = self._named
        if named is None:
            return
        source = ctx.get_parameter_source(str((URI if URI in self.params else REST).name))
        if source is ParameterSource.DEFAULT_MAP:
            give_credentials(named, os.environ)
        elif source is ParameterSource.DEFAULT:
            ctx.fail("The context that is used has no REST address: give --rest.")
        elif ctx.get_parameter_source(str(TLS_CA.name)) is ParameterSource.DEFAULT_MAP:
            ctx.params[str(TLS_CA.name)] = None

    def _check_apart(self, ctx: click.Context) -> None:
        options = {parameter.name: parameter.opts[-1] for parameter in self.params}
        for group in self._apart:
            given = [
                options[name]
                for name in group
                if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            ]
            if len(given) > 1:
                ctx.fail(f"{' and '.join(given)} exclude each other.")
            if not given and group is self._needed:
                ctx.fail(f"One of {', '.join(options[name] for name in group)} is needed.")

    def invoke(self, ctx: click.Context) -> Any:
        self._settle_context(ctx)
        chosen = ctx.params
        authorities = chosen.pop(TLS_CA.name, None)
        if URI.name in chosen:
            ctx.meta[URI_META] = chosen[URI.name]
            chosen["connection"] = Connection(chosen.pop(URI.name), authorities)
        if REST.name in chosen:
            chosen[REST.name] = RestServer(chosen[REST.name], authorities)
        verbosity = chosen.pop(VERBOSE.name, 0)
        if not verbosity:
            return super().invoke(ctx)
        from headrace.runtime import logs

        with logs.shown(level="info" if verbosity == 1 else "debug"):
            return super().invoke(ctx)


class Noun(_EndsWithExamples, click.Group):
    """A command whose verbs do something, or which has further nouns.

    ``itself``: what the noun does without a verb, with options of its own.
    """

    def __init__(self, name: str, summary: str, epilog: str = "", itself: Verb | None = None) -> None:
        super().__init__(
            name,
            help=summary,
            short_help=summary,
            epilog=epilog,
            subcommand_metavar="VERB ...",
            options_metavar="" if itself is None else "[OPTIONS] |",
        )
        self._itself = itself

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if self._itself is not None and (
            _begins_with_own_option(args, self._itself) or (not args and _is_in_environment(self._itself))
        ):
            return self._itself.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self._itself is not None:
            self._itself.format_options(ctx, formatter)
            self.format_commands(ctx, formatter)
        else:
            super().format_options(ctx, formatter)

    def verb(
        self,
        name: str,
        module: str,
        function: str,
        summary: str,
        examples: str,
        *parameters: click.Parameter,
        apart: Sequence[tuple[str, ...]] = (),
        needed: tuple[str, ...] = (),
    ) -> None:
        """Declare a verb that is done by ``function`` of ``module``; see :class:`Verb`."""
        run = Later(module, function)
        self.add_command(Verb(name, run, summary, examples, *parameters, apart=apart, needed=needed))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _hand_on(args))
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            hint = "Options of a verb stand behind it."
            raise click.NoSuchOption(error.option_name, f"{error.message} {hint}", ctx=ctx) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(self.commands)  # as they are declared, not by the alphabet

    def walk(self, ctx: click.Context) -> Iterator[tuple[tuple[str, ...], Verb]]:
        """Yield all verbs with their words."""
        if self._itself is not None:
            yield (), self._itself
        for name in self.list_commands(ctx):
            found = self.get_command(ctx, name)
            if isinstance(found, Noun):
                yield from (((name, *words), verb) for words, verb in found.walk(ctx))
            elif isinstance(found, Verb):
                yield (name,), found


def _is_in_environment(verb: Verb) -> bool:
    """Whether an option of a verb is given by the environment: then no word is needed."""
    return any(isinstance(each.envvar, str) and each.envvar in os.environ for each in verb.params)


def _begins_with_own_option(words: list[str], verb: Verb) -> bool:
    """Whether the first word that no verb shares with others is an option of this one."""
    at = 0
    while at < len(words) and (count := _count_shared(words[at])):
        at += count
    own = {name for parameter in verb.params for name in parameter.opts}
    return at < len(words) and words[at].partition("=")[0] in own


def _hand_on(words: list[str]) -> list[str]:
    """Put the shared options in front of the first other word behind it."""
    at = 0
    while at < len(words) and (count := _count_shared(words[at])):
        at += count
    if at >= len(words):
        return []
    return [words[at], *words[:at], *words[at + 1 :]]


def _count_shared(word: str) -> int:
    """Return how many words a shared option takes that begins with this one; 0: it is none."""
    if word.startswith("--"):
        option = _SHARED.get(word.partition("=")[0])
        return 0 if option is None else 1 if _is_flag(option) or "=" in word else 2
    if len(word) < 2 or not word.startswith("-"):
        return 0
    for place, letter in enumerate(word[1:], 2):
        option = _SHARED.get(f"-{letter}")
        if option is None:
            return 0
        if not _is_flag(option):
            return 2 if place == len(word) else 1
    return 1


def _is_flag(option: click.Option) -> bool:
    return option.is_flag or option.count
