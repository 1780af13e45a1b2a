"""``headrace cluster``: what several processes agree on."""

from __future__ import annotations

from headrace.cli.shared_options import COORDINATOR, JSON, VERBOSE, NotEmpty, option
from headrace.cli.verbs import Noun

LOG_DEFAULT = "headrace-logs"
CONTAINERS_DEFAULT = 4
BUCKETS_DEFAULT = 16


def declare(name: str, summary: str) -> Noun:
    cluster = Noun(name, summary)
    cluster.verb(
        "init",
        *("headrace.cli.cluster.init", "init_cluster"),
        "Make a cluster, once: its number of containers, its logs and its long-term storage.",
        """
        headrace cluster init --coordinator zk://localhost:2181/headrace --storage file:///mnt/chunks
        headrace cluster init --containers 16 --log file:///mnt/logs --storage s3://bucket/prefix
        headrace cluster init --from-data-dir /var/lib/headrace
        """,
        COORDINATOR,
        option("--containers", type=int, metavar="N", help=f"for ever (default: {CONTAINERS_DEFAULT})"),
        option("--buckets", type=int, metavar="N", help=f"for ever (default: {BUCKETS_DEFAULT})"),
        option(
            "--log",
            metavar="URI",
            type=NotEmpty("the URI"),
            help=f"file:///directory for logs of all stores, on one machine (default: {LOG_DEFAULT} here)",
        ),
        option(
            "--storage",
            metavar="URI",
            type=NotEmpty("the URI"),
            help="store of the chunks: file:///mnt/chunks, s3://bucket/prefix, gs://, az://, hdfs://",
        ),
        option(
            "--from-data-dir",
            metavar="DIR",
            type=NotEmpty("the directory"),
            help="go on with the data of a standalone server, in place of the four above",
        ),
        JSON,
        VERBOSE,
    )
    cluster.verb(
        "status",
        *("headrace.cli.cluster.status", "show_status"),
        "Say who takes part, who leads, who serves each container and what is not served; exit code 4 then.",
        """
        headrace cluster status --coordinator zk://localhost:2181/headrace
        headrace cluster status --json
        """,
        COORDINATOR,
        JSON,
        VERBOSE,
    )
    return cluster
