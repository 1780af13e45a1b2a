"""A real BookKeeper on loopback: ZooKeeper and some bookies, each a process on a free port.

``install`` fetches the jars by Maven into the cache of the machine (``python -m tests.bookies.servers``, or
``make bookies``).
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from headrace.testing.zookeeper_server import ZooKeeperServer
from tests.stores.hdfs_server import free_port

VERSION = os.environ.get("BOOKKEEPER_VERSION", "4.17.3")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "bookkeeper"
JARS = CACHE / VERSION
EVERY = os.environ.get("BOOKIES_TESTED", "") == "all"
START_S = 120

_OPENED = ("java.lang", "sun.nio.ch", "java.nio", "java.io", "java.util.zip")
JAVA = [
    "java",
    "-Xmx256m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.leakDetectionLevel=disabled",
]
CONF = """\
bookiePort={port}
advertisedAddress=127.0.0.1
listeningInterface=lo
allowLoopback=true
metadataServiceUri=zk+hierarchical://127.0.0.1:{zookeeper}/ledgers
zkTimeout={session_ms}
journalDirectories={directory}/journal
ledgerDirectories={directory}/ledgers
indexDirectories={directory}/ledgers
ledgerStorageClass=org.apache.bookkeeper.bookie.SortedLedgerStorage
journalPreAllocSizeMB=4
journalMaxSizeMB=64
journalSyncData=true
skipListSizeLimit=16777216
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.98
minUsableSizeForEntryLogCreation=1
minUsableSizeForIndexFileCreation=1
minUsableSizeForHighPriorityWrites=1
isForceGCAllowWhenNoSpace=true
gcWaitTime=10000
httpServerEnabled=false
enableStatistics=false
numAddWorkerThreads=1
numReadWorkerThreads=2
autoRecoveryDaemonEnabled=false
openLedgerRereplicationGracePeriod=2000
lostBookieRecoveryDelay=0
auditorPeriodicCheckInterval=0
"""
SERVER = "org.apache.bookkeeper.server.Main"
SHELL = "org.apache.bookkeeper.bookie.BookieShell"
RECOVERY = "org.apache.bookkeeper.replication.AutoRecoveryMain"


def why_not():
    """Return why no bookies are started here; "" if they are."""
    if not EVERY:
        return "bookies take a while to start: make bookies"
    if shutil.which("java") is None:
        return "there is no Java"
    return "" if any(JARS.glob("bookkeeper-server-*.jar")) else f"{JARS} has no jars: make bookies"


def install():
    """Fetch the jars, if they are not there."""
    if any(JARS.glob("bookkeeper-server-*.jar")):
        return
    with tempfile.TemporaryDirectory() as directory:
        pom = Path(directory) / "pom.xml"
        pom.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>none</groupId><artifactId>none</artifactId>"
            "<version>1</version><dependencies><dependency><groupId>org.apache.bookkeeper</groupId>"
            f"<artifactId>bookkeeper-server</artifactId><version>{VERSION}</version></dependency>"
            "</dependencies></project>"
        )
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        command = ["mvn", "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={JARS}"]
        subprocess.run(command, check=True)


class Bookie:
    """One bookie: its data survive its process."""

    def __init__(self, directory, zookeeper, session_ms):
        self.directory = directory
        self.port = free_port()
        self.name = f"127.0.0.1:{self.port}"
        self.conf = directory / "bk.conf"
        directory.mkdir(parents=True)
        self.conf.write_text(
            CONF.format(port=self.port, zookeeper=zookeeper, directory=directory, session_ms=session_ms)
        )
        self._process = None

    def start(self):
        """Begin; :meth:`wait` waits until it answers."""
        with (self.directory / "out").open("ab") as out:
            command = java(SERVER, "--conf", str(self.conf))
            self._process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.directory)

    def wait(self):
        deadline = time.monotonic() + START_S
        while not answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"a bookie did not start: {(self.directory / 'out').read_text()[-3000:]}")
            time.sleep(0.05)

    def kill(self):
        """End it without warning. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def suspend(self):
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self._process.pid, signal.SIGCONT)

    def lose_disk(self):
        """Delete what it has stored, but for what proves that the directories are its own."""
        for path in [*self.directory.glob("ledgers/current/*"), *self.directory.glob("journal/current/*")]:
            if path.name != "VERSION":
                shutil.rmtree(path) if path.is_dir() else path.unlink()


class BookKeeper:
    """ZooKeeper and ``count`` bookies below ``directory``."""

    def __init__(self, directory, count=3, *, session_ms=4000):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "zk").mkdir()
        self.zookeeper = ZooKeeperServer(directory / "zk")
        self.bookies = [
            Bookie(directory / f"b{number}", self.zookeeper.port, session_ms) for number in range(count)
        ]
        self._recovery = None

    def uri(self, query=""):
        return f"bookkeeper://127.0.0.1:{self.zookeeper.port}/ledgers{query}"

    @property
    def metadata_uri(self):
        return f"zk+hierarchical://127.0.0.1:{self.zookeeper.port}/ledgers"

    def __enter__(self):
        try:
            self.zookeeper.start()
            self.shell("initnewcluster")
            for bookie in self.bookies:
                bookie.start()
            for bookie in self.bookies:
                bookie.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop_recovery()
        for bookie in self.bookies:
            bookie.kill()
        self.zookeeper.kill()

    def shell(self, *arguments):
        """Run a command of BookKeeper's shell; return what it prints."""
        return run(SHELL, "-conf", str(self.bookies[0].conf), *arguments)

    def start_recovery(self):
        """Begin BookKeeper's own repair, which fences ledgers of bookies that are lost."""
        with (self.directory / "recovery.out").open("ab") as out:
            self._recovery = subprocess.Popen(
                java(RECOVERY, "-c", str(self.bookies[0].conf)), stdout=out, stderr=out, cwd=self.directory
            )

    def stop_recovery(self):
        if self._recovery is not None:
            self._recovery.kill()
            self._recovery.wait()
            self._recovery = None


def java(main, *arguments, source=None):
    """Return the command that runs a class of the jars, or a program in one file."""
    return [*JAVA, "-cp", f"{JARS}/*", str(source) if source else main, *arguments]


def run(main, *arguments, source=None):
    done = subprocess.run(java(main, *arguments, source=source), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{main or source} {arguments}: {done.stdout[-3000:]} {done.stderr[-3000:]}")
    return done.stdout


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    install()
