"""``headrace log``: the write-ahead logs of a system as a whole, wherever they are."""

from __future__ import annotations

from headrace.cli.shared_options import COORDINATOR, JSON, VERBOSE, NotEmpty, option
from headrace.cli.verbs import Noun


def declare(name: str, summary: str) -> Noun:
    log = Noun(name, summary)
    log.verb(
        *("copy", "headrace.cli.log.copy", "copy_log"),
        "Move the log of a stopped system: from its data directory to a bucket, back, or between buckets.",
        """
        headrace log copy --from headrace-data --to s3://bucket/log
        headrace log copy --from s3://bucket/log --to /var/lib/headrace
        headrace log copy --coordinator zk://localhost:2181/headrace --to s3://bucket/log
        """,
        option(
            *("--from", "source"),
            metavar="DIR|URI",
            type=NotEmpty("the place"),
            help="data directory, wherever its log is, which remembers the new place; or a bucket with a "
            "log (default: where that of the cluster is)",
        ),
        COORDINATOR,
        option(
            *("--to", "target"),
            required=True,
            metavar="DIR|URI",
            type=NotEmpty("the place"),
            help="bucket or BookKeeper without a log: s3://bucket/log, bookkeeper://zk1/ledgers; or the "
            "data directory it goes into",
        ),
        JSON,
        VERBOSE,
        apart=(("source", "coordinator"),),
    )
    return log
