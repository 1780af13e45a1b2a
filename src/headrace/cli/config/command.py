"""``headrace config``: the settings of a server."""

from __future__ import annotations

from headrace.cli.shared_options import JSON, argument, flag, option
from headrace.cli.verbs import Noun

_MODULE = "headrace.cli.config.verbs"


def declare(name: str, summary: str) -> Noun:
    config = Noun(name, summary)
    config.verb(
        *("show", _MODULE, "show_config"),
        "Every setting, its value and where it comes from: default, line of a file, variable.",
        """
        headrace config show --changed
        headrace config show --config headrace.toml
        """,
        option("--config", "file", metavar="FILE", help="settings in TOML, as of standalone"),
        flag("--changed", help="only those that have not their default"),
        JSON,
    )
    config.verb(
        *("check", _MODULE, "check_config"),
        "All that is wrong with a file of settings, with its lines; exit code 2 if anything is.",
        "headrace config check headrace.toml",
        argument("file", "FILE"),
        JSON,
    )
    return config
