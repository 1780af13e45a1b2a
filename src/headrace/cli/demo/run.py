"""What ``headrace demo`` does."""

from __future__ import annotations

import sys

from headrace.demo.requirements import check_requirements


def run_demo(*, keep: bool, directory: str | None, storage: str | None, cluster: bool) -> None:
    """Run the demo if all it needs is installed; its code is that of the process."""
    check_requirements()
    from headrace.demo.run import run

    code = run(keep=keep, directory=directory, storage=storage, cluster=cluster)
    if code:
        sys.exit(code)
