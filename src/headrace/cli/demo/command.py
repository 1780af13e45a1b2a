"""``headrace demo``: the main job on real data, checked to the last digit."""

from __future__ import annotations

from headrace.cli.shared_options import flag, option
from headrace.cli.verbs import Later, Verb

_EXAMPLES = """
headrace demo
headrace demo --keep
headrace demo --storage s3
headrace demo --cluster
"""


def declare(name: str, summary: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.demo.run", "run_demo"),
        summary,
        _EXAMPLES,
        flag("--keep", help="leave the server running and print how to explore it"),
        flag("--cluster", help="run a cluster on this machine: 3 segment stores, 2 controllers, a ZooKeeper"),
        option(
            "--storage", metavar="URI", help="store of the chunks, as of standalone; s3: a local versitygw"
        ),
        option("--directory", metavar="DIR", help="where data and results go (default: demo-output)"),
    )
