"""What ``headrace completion`` prints: a script for the start-up file of a shell."""

from __future__ import annotations

from typing import Final

from click.shell_completion import get_completion_class

from headrace.cli.nouns import COMPLETE_VARIABLE, ROOT
from headrace.cli.output import print_line

_ZSH_DECLARES: Final = "compdef _headrace_completion headrace"
_ZSH_BEGINS: Final = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }"
"""zsh knows ``compdef`` only once completion has begun, which a new account does nowhere."""


def print_script(*, shell: str) -> None:
    """Print the script of ``bash``, ``zsh`` or ``fish``."""
    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(ROOT, {}, "headrace", COMPLETE_VARIABLE).source()
    print_line(script.replace(f"    {_ZSH_DECLARES}", f"    {_ZSH_BEGINS}\n    {_ZSH_DECLARES}"))
