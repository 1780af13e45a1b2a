"""Which of the chosen streams are there: asked before each batch, and when a read is defined."""

from __future__ import annotations

from headrace.client.blocking.client import Client
from headrace.errors import NoSuchStreamError
from headrace.spark.stream_choice import StreamChoice, split_name


def chosen_streams(client: Client, choice: StreamChoice) -> list[str]:
    """Return the full names that are chosen now: all of a list, those of a rule that exist.

    Raises:
        NoSuchScopeError: the scope of a rule does not exist.
        InvalidArgumentError: a rule chooses too many.
    """
    if not choice.is_rule:
        return list(choice.names)
    return choice.choose(client.list_streams(choice.scope, tag=choice.tag or None))


def present_streams(client: Client, choice: StreamChoice) -> list[str]:
    """Return the chosen streams of a batch read.

    Raises:
        NoSuchStreamError: one does not exist, or a rule chooses none.
    """
    names = chosen_streams(client, choice)
    if not names:
        raise NoSuchStreamError(f"no stream is chosen by {choice}")
    check_names(client, choice)
    return names


def check_names(client: Client, choice: StreamChoice) -> None:
    """Raises NoSuchStreamError: a stream that was chosen by its name does not exist."""
    for name in choice.names:
        if not client.stream_exists(*split_name(name)):
            raise NoSuchStreamError(
                f"stream {name} does not exist. Create it: headrace stream create {name}, or in a streaming "
                "read with option allow_create_stream=true"
            )
