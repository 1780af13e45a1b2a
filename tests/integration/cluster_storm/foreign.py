"""Writers that are not ours: the real Rust client (the ``pravega`` wheel) and the Java client, if they are
there. Each is a process that writes numbered events per key until it is told to end, and says how many.
"""

import asyncio
import os
import sys
from dataclasses import dataclass, field

from tests.interop.java_programs import HAS_JAVA_CLIENT, command_of

WHEEL, JAVA = "wheel", "java"
KINDS = [*([WHEEL] if sys.version_info < (3, 12) else []), *([JAVA] if HAS_JAVA_CLIENT else [])]
"""Those that can be started here; a writer of each writes to the stream of that name."""
KEYS = 4
LONG_S = 300


@dataclass
class Written:
    """How many events each key has: exactly, or at least if the writer ended by itself."""

    exactly: dict = field(default_factory=dict)
    at_least: dict = field(default_factory=dict)
    lives: int = 0

    def check(self, found):
        """Raise AssertionError unless the stream has what was acknowledged."""
        assert {key: found[key] for key in self.exactly} == self.exactly
        for key, count in self.at_least.items():
            assert found.get(key, 0) >= count, (key, count)


async def write(kind, uri, scope, is_over):
    """Write until ``is_over``; return what is there then.

    The wheel may panic when its connection ends at a bad moment; then another one begins, with other keys.
    """
    written = Written()
    while not is_over():
        await _write_once(kind, uri, scope, is_over, written)
    return written


async def _write_once(kind, uri, scope, is_over, written):
    written.lives += 1
    prefix = f"w{written.lives}k"
    if kind == WHEEL:
        # It takes one controller, and asks that again until it is back.
        only = uri.partition(",")[0]
        command = [sys.executable, "-m", "tests.interop.wheel_program", "write_rounds", only, scope]
    else:
        command = command_of("Writer", uri, scope, kind)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "WRITER_PREFIX": prefix, "WRITER_KEYS": str(KEYS)},
    )
    try:
        reading = asyncio.ensure_future(process.stdout.read())
        while not is_over() and process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        if process.returncode is None:
            process.stdin.write(b"\n")
        async with asyncio.timeout(LONG_S):
            said = await reading
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0 or kind == WHEEL, f"the writer of {kind} ended with {process.returncode}"
    rounds = [int(line) for line in said.split()]  # that were acknowledged so far
    keys = [f"{prefix}{key}" for key in range(KEYS)]
    into = written.exactly if process.returncode == 0 else written.at_least
    into.update(dict.fromkeys(keys, rounds[-1] if rounds else 0))
