"""A real name node and a data node on loopback.

Its jars: PySpark brings Hadoop's client, the server is one jar more, of the same version. ``install`` fetches
it by Maven into the cache of the machine (``python -m tests.stores.hdfs_server``, or ``make stores``).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from headrace.storage.providers.location import StorageLocation
from tests.stores.servers import EVERY

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "hdfs"
START_S = 120

CORE = {"fs.defaultFS": "hdfs://{rpc}", "hadoop.tmp.dir": "{directory}/tmp"}
HDFS = {
    "dfs.namenode.name.dir": "{directory}/name",
    "dfs.datanode.data.dir": "{directory}/data",
    "dfs.replication": "1",
    "dfs.blocksize": str(1 << 20),
    "dfs.namenode.rpc-address": "{rpc}",
    "dfs.namenode.http-address": "{http}",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.datanode.hostname": "127.0.0.1",
    "dfs.namenode.safemode.extension": "0",
}
JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC"]
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"


def client_jars() -> list[Path]:
    """Return Hadoop's client and its logging among PySpark's jars; none if there is no PySpark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    jars = Path(found.origin).parent / "jars"
    wanted = ("hadoop-client-api-*", "hadoop-client-runtime-*", "slf4j-api-*", "log4j-*", "jcl-over-slf4j-*")
    return sorted(path for each in wanted for path in jars.glob(f"{each}.jar"))


def server_jar() -> Path | None:
    """Return where the jar of the server is, or will be; None if its version is not known."""
    for path in client_jars():
        if path.name.startswith("hadoop-client-runtime-"):
            return CACHE / path.name.replace("runtime", "minicluster")
    return None


def why_not() -> str:
    """Return why it is not started here; "" if it is."""
    if not EVERY:
        return "HDFS takes a while to start: make stores"
    if shutil.which("java") is None:
        return "there is no Java"
    jar = server_jar()
    if jar is None:
        return "there is no PySpark, which brings Hadoop's client"
    return "" if jar.exists() else f"{jar} is missing: make stores"


def install() -> None:
    """Fetch the jar of the server, if it is not there."""
    jar = server_jar()
    if jar is None or jar.exists():
        return
    version = jar.stem.rpartition("-")[2]
    artifact = f"org.apache.hadoop:hadoop-client-minicluster:{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
    subprocess.run(
        [
            "mvn",
            "-q",
            "-B",
            "-Dstyle.color=never",
            goal,
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={CACHE}",
        ],
        check=True,
    )


class HdfsServer:
    """Both nodes, with their data below ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address = f"127.0.0.1:{free_port()}"
        self._http = f"127.0.0.1:{free_port()}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def location(self, directory: str) -> StorageLocation:
        return self.location_of(self.address, directory)

    @staticmethod
    def location_of(address: str, directory: str) -> StorageLocation:
        return StorageLocation("hdfs", address, directory)

    def start(self) -> None:
        """Return when the data node takes blocks."""
        (self.directory / "conf").mkdir(parents=True)
        self._write("core-site.xml", CORE)
        self._write("hdfs-site.xml", HDFS)
        self._run(NAME_NODE, "-format", "-force", "-nonInteractive")
        self._begin(NAME_NODE)
        self._begin(DATA_NODE)
        self._wait()

    def stop_name_node(self) -> None:
        """End it without warning."""
        process = self._processes.pop(NAME_NODE)
        process.kill()
        process.wait()

    def start_name_node(self) -> None:
        """Start it again; return when the data node is back as well."""
        self._begin(NAME_NODE)
        self._wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def admin(self, *arguments: str) -> None:
        """Run a command of Hadoop's administrator."""
        self._run(ADMIN, *arguments)

    def _begin(self, node: str) -> None:
        with (self.directory / f"{node.rpartition('.')[2]}.out").open("ab") as out:
            self._processes[node] = subprocess.Popen(
                self._command(node), stdout=out, stderr=out, cwd=self.directory
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            if time.monotonic() > deadline or any(
                each.poll() is not None for each in self._processes.values()
            ):
                self.stop()
                logs = {path.name: path.read_text()[-2000:] for path in self.directory.glob("*.out")}
                raise RuntimeError(f"HDFS did not start: {logs}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        state = self._state()
        return state.get("NumLiveDataNodes") == 1 and state.get("FSState") == "Operational"

    def _state(self) -> dict[str, object]:
        query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(f"http://{self._http}/{query}", timeout=5) as answer:
                beans: list[dict[str, object]] = json.load(answer)["beans"]
        except (OSError, ValueError):
            return {}
        return beans[0] if beans else {}

    def _write(self, name: str, settings: dict[str, str]) -> None:
        places = {"rpc": self.address, "http": self._http, "directory": self.directory}
        rows = "".join(
            f"<property><name>{key}</name><value>{value.format(**places)}</value></property>"
            for key, value in settings.items()
        )
        (self.directory / "conf" / name).write_text(f"<configuration>{rows}</configuration>")

    def _command(self, main: str, *arguments: str) -> list[str]:
        classes = [self.directory / "conf", server_jar(), *client_jars()]
        return [*JAVA, "-cp", os.pathsep.join(map(str, classes)), main, *arguments]

    def _run(self, main: str, *arguments: str) -> None:
        command = self._command(main, *arguments)
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.directory)
        if done.returncode:
            raise RuntimeError(f"{main} {arguments}: {done.stdout[-2000:]} {done.stderr[-2000:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    install()
