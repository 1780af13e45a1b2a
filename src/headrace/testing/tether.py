"""The command line in a process that ends with the one that started it, however that ends.

Its standard input is a pipe that only the starter can write to. The end of the pipe is the end of the
starter; one byte lets the process outlive it.
"""

from __future__ import annotations

import os
import signal
import threading


def _watch() -> None:
    if not os.read(0, 1):
        os.kill(os.getpid(), signal.SIGKILL)  # what was acknowledged is durable


def main() -> None:
    """Run the command of this process."""
    threading.Thread(target=_watch, name="tether", daemon=True).start()
    from headrace.cli.main import command

    command()


if __name__ == "__main__":
    main()
