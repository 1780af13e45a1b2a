"""``python -m headrace.demo``: the demo without the command line around it."""

import argparse
import sys

from headrace.demo.requirements import check_requirements
from headrace.errors import UnsupportedError

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="headrace.demo")
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    parser.add_argument("--directory", help="where results go (default: demo-output)")
    parser.add_argument("--storage", help="store of the chunks; s3: a local S3 server")
    parser.add_argument("--cluster", action="store_true", help="run a cluster on this machine")
    chosen = parser.parse_args()
    try:
        check_requirements()
    except UnsupportedError as error:
        sys.exit(f"headrace.demo: {error}")
    from headrace.demo.run import run

    sys.exit(
        run(keep=chosen.keep, directory=chosen.directory, storage=chosen.storage, cluster=chosen.cluster)
    )
