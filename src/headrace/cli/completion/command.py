"""``headrace completion``: what makes a shell complete the words of this command."""

from __future__ import annotations

import click

from headrace.cli.shared_options import argument
from headrace.cli.verbs import Later, Verb

_EXAMPLES = """
eval "$(headrace completion bash)"
headrace completion zsh >> ~/.zshrc
headrace completion fish > ~/.config/fish/completions/headrace.fish
"""


def declare(name: str, summary: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.completion.script", "print_script"),
        summary,
        _EXAMPLES,
        argument("shell", "SHELL", "bash, zsh or fish", type=click.Choice(["bash", "zsh", "fish"])),
    )
