"""The server the examples talk to: the one named on the command line, or one of their own in memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server_uri() -> Iterator[str]:
    """Yield the URI of a controller: the program's first argument, or a server started for this program."""
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory) / "ready.json"
        ports = [word for part in ("controller", "segmentstore", "rest") for word in (f"--{part}-port", "0")]
        command = [sys.executable, "-m", "headrace.cli.main", "standalone", "--in-memory"]
        server = subprocess.Popen([*command, "--ready-file", str(ready), *ports], stderr=subprocess.DEVNULL)
        try:
            while not (ready.exists() and ready.stat().st_size):
                if server.poll() is not None:
                    raise SystemExit("the server did not start")
                time.sleep(0.05)
            yield f"tcp://{json.loads(ready.read_text())['controller']}"
        finally:
            server.terminate()
            server.wait()
