"""``headrace cluster``: what several processes agree on."""

from __future__ import annotations

import click

from headrace.cli.shared_options import COORDINATOR, JSON, TLS_CA, VERBOSE, NotEmpty, argument, flag, option
from headrace.cli.verbs import Noun

LOG_DEFAULT = "headrace-logs"
CONTAINERS_DEFAULT = 4
BUCKETS_DEFAULT = 16
LOCAL_DEFAULT = "headrace-cluster"


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
            help="logs of all stores: file:///directory on one machine, s3://bucket/log or bookkeeper:// "
            f"(default: {LOG_DEFAULT} here)",
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
        "local",
        *("headrace.cli.cluster.local", "run_local"),
        "Run a cluster on this machine until SIGTERM or Ctrl-C: ZooKeeper, controllers and segment stores.",
        """
        headrace cluster local
        headrace cluster local --stores 2 --controllers 1 --data-dir /tmp/cluster --ready-file ready.json
        headrace cluster local --coordinator zk://localhost:2181/headrace
        """,
        option(
            *("-d", "--data-dir"),
            metavar="DIR",
            type=NotEmpty("the directory"),
            default=LOCAL_DEFAULT,
            help=f"where all data live, for the next start as well (default: {LOCAL_DEFAULT})",
        ),
        option(
            "--stores", type=click.IntRange(1, 64), metavar="N", default=3, help="segment stores (default: 3)"
        ),
        option(
            "--controllers",
            type=click.IntRange(1, 16),
            metavar="N",
            default=2,
            help="controllers (default: 2)",
        ),
        option("--containers", type=int, metavar="N", help="for ever (default: two for each store)"),
        option(
            "--storage",
            metavar="URI",
            type=NotEmpty("the URI"),
            help="store of the chunks of a new cluster (default: files below --data-dir)",
        ),
        option(
            "--coordinator",
            metavar="zk://HOST:PORT/ROOT",
            type=NotEmpty("the URI"),
            help="a ZooKeeper that runs; without it one is started, which takes Java and pyspark",
        ),
        option("--ready-file", metavar="PATH", help="written as JSON once clients may connect"),
        flag("--no-restart", help="let a process that has ended be gone, instead of starting it again"),
        VERBOSE,
    )
    cluster.verb(
        "drain",
        *("headrace.cli.cluster.drain", "drain_store"),
        "Have a segment store hand over all that it serves, and wait; exit code 4 if that takes too long.",
        """
        headrace cluster drain 10.0.0.7:12345 --coordinator zk://localhost:2181/headrace
        headrace cluster drain 6723dc477b5595a3 --timeout 300
        headrace cluster drain 10.0.0.7:12345 --cancel
        """,
        argument("store", "STORE", help="its id or its address, as cluster status shows them"),
        COORDINATOR,
        option(
            *("--timeout", "timeout_s"),
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            default=60.0,
            help="how long to wait until it has nothing (default: 60)",
        ),
        flag("--cancel", help="let it be given containers again"),
        JSON,
        VERBOSE,
    )
    cluster.verb(
        "finalize",
        *("headrace.cli.cluster.finalize", "finalize_cluster"),
        "End a rolling upgrade: let the cluster write the newest format that every live process knows.",
        """
        headrace cluster finalize --coordinator zk://localhost:2181/headrace
        """,
        COORDINATOR,
        JSON,
        VERBOSE,
    )
    cluster.verb(
        "status",
        *("headrace.cli.cluster.status", "show_status"),
        "Say who takes part, who leads, who serves each container and what is not served; exit code 4 then.",
        """
        headrace cluster status --coordinator zk://localhost:2181/headrace
        headrace cluster status --uri tcp://localhost:9090 --json
        """,
        COORDINATOR,
        option(
            *("-c", "--controller", "--uri", "uri"),
            metavar="URI",
            default="",
            help="a controller that is asked instead (default without a coordinator: $HEADRACE_URI)",
        ),
        TLS_CA,
        JSON,
        VERBOSE,
        apart=(("coordinator", "uri"),),
    )
    return cluster
