"""``headrace demo``: the main job on real data, checked to the last digit."""

from __future__ import annotations

import argparse
import sys

from headrace.cli.verbs import Subparsers, add_verb


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        nouns,
        "demo",
        run,
        "Send the flights of New York 2013 through a durable stream and PySpark; check every total.",
        """
        headrace demo
        headrace demo --keep
        headrace demo --storage s3
        """,
        connects=False,
    )
    verb.add_argument(
        "--keep", action="store_true", help="leave the server running and print how to explore it"
    )
    verb.add_argument(
        "--storage", metavar="URI", help="store of the chunks, as of standalone; s3: a local versitygw"
    )
    verb.add_argument("--directory", metavar="DIR", help="where data and results go (default: demo-output)")


def run(chosen: argparse.Namespace) -> None:
    from headrace.demo.requirements import check_requirements

    check_requirements()
    from headrace.demo.run import run as run_demo

    code = run_demo(keep=chosen.keep, directory=chosen.directory, storage=chosen.storage)
    if code:
        sys.exit(code)
