"""A ZooKeeper server of this machine, from the jars that come with PySpark: what it needs, how it is run."""

from __future__ import annotations

import importlib.util
import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.errors import UnsupportedError

_JARS: Final = (
    "zookeeper-3.*",
    "zookeeper-jute-*",
    "slf4j-api-*",
    "metrics-core-*",
    "snappy-java-*",
    "netty-handler-4*",
    "netty-common-4*",
    "netty-buffer-4*",
    "netty-transport-4*",
)
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
"""Which also deletes old snapshots, of a server that is alone, too."""
_ASK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Java:
    """What runs the server."""

    program: str
    class_path: str


def find_java() -> Java:
    """Raises UnsupportedError: there is no Java, or there are no jars."""
    program = shutil.which("java")
    if program is None:
        raise UnsupportedError("ZooKeeper needs Java, and no java is on the PATH: install Java 17 or later")
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise UnsupportedError(
            "the jars of ZooKeeper are taken from pyspark, not installed for this Python: "
            "pip install 'headrace[spark]'"
        )
    jars = Path(found.origin).parent / "jars"
    files = [next(iter(sorted(jars.glob(f"{pattern}.jar"))), None) for pattern in _JARS]
    missing = [pattern for pattern, file in zip(_JARS, files, strict=True) if file is None]
    if missing:
        raise UnsupportedError(f"this pyspark has no {', '.join(missing)}, which ZooKeeper needs: in {jars}")
    return Java(program, ":".join(map(str, files)))


def write_zookeeper_config(
    directory: Path, port: int, *, tick_ms: int = 500, session_ms_max: int = 60_000
) -> Path:
    """Write how a server with its data in ``directory`` is to run, and return the file."""
    config = directory / "zoo.cfg"
    config.write_text(
        f"tickTime={tick_ms}\ndataDir={directory / 'data'}\nclientPort={port}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
        f"4lw.commands.whitelist=ruok\nminSessionTimeout=500\nmaxSessionTimeout={session_ms_max}\n"
        "autopurge.purgeInterval=1\nautopurge.snapRetainCount=3\n"
    )
    return config


def zookeeper_command(java: Java, config: Path, *options: str) -> list[str]:
    """Return the command line of a server; ``options`` are Java's."""
    return [
        *(java.program, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
        *("-Dzookeeper.preAllocSize=4096", *options, "-cp", java.class_path, _MAIN, str(config)),
    ]


def zookeeper_answers(port: int) -> bool:
    """Whether a server takes requests."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), _ASK_S) as connection:
        connection.sendall(b"ruok")
        return connection.recv(4) == b"imok"
    return False


def free_port(wanted: int = 0) -> int:
    """Return a port of this machine that nothing listens on now: the wanted one if it can be had."""
    for port in (wanted, 0):
        with suppress(OSError, OverflowError), socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            found: int = listener.getsockname()[1]
            return found
    raise OSError("this machine has no free port")
