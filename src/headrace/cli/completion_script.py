"""What ``headrace completion`` prints: a script for the start-up file of a shell."""

from __future__ import annotations

from click.shell_completion import get_completion_class

from headrace.cli.nouns import COMPLETE_VARIABLE, ROOT
from headrace.cli.output import print_line


def print_script(*, shell: str) -> None:
    """Print the script of ``bash``, ``zsh`` or ``fish``."""
    completion = get_completion_class(shell)
    assert completion is not None
    print_line(completion(ROOT, {}, "headrace", COMPLETE_VARIABLE).source())
