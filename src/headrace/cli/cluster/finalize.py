"""What ``headrace cluster finalize`` does: raises the format of a cluster that is wholly upgraded."""

from __future__ import annotations

from headrace.cli.cluster.cluster_session import in_session
from headrace.cli.output import print_json, print_line
from headrace.cluster.finalizing import finalize


def finalize_cluster(*, coordinator: str | None, as_json: bool) -> None:
    """Raise it, or say that there is nothing to do.

    Raises PreconditionError: not every live process knows the next one, and the message names those.
    """
    before, after = in_session(coordinator, finalize)
    if as_json:
        print_json({"before": before, "format": after})
    elif before == after:
        print_line(f"the cluster is at format {after} already: nothing to do")
    else:
        print_line(f"the cluster was at format {before} and is at {after}: earlier versions cannot join it")
