"""``python -m headrace.demo``: the demo without the command line around it."""

import argparse
import sys

from headrace.demo.run import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="headrace.demo")
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    parser.add_argument("--directory", help="where results go (default: demo-output)")
    chosen = parser.parse_args()
    sys.exit(run(keep=chosen.keep, directory=chosen.directory))
