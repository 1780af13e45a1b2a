"""Real servers of object stores: what installs each, how it starts, and where its bucket is.

``python -m tests.stores.servers`` installs by name what is missing (``make stores``), into the folder
``headrace`` of the user's cache. Nothing is installed by tests: a server that is not there is skipped.
"""

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.stores.buckets import make_azure_container, make_gcs_bucket, make_s3_bucket

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
FILES = Path(__file__).parent / "files"

KEY, SECRET = "test", "testtest"
AZURE_KEY = base64.b64encode(b"key of a test").decode()
STARTS_WITHIN_S = 60.0
STOPS_WITHIN_S = 10.0

S3_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}


class UnavailableError(Exception):
    """A server is not installed, or cannot be; the text says why."""


@dataclass
class Running:
    """A server that runs: the URI of its bucket, and the credentials for it."""

    bucket: str
    options: str
    environment: dict[str, str] = field(default_factory=dict)

    def uri(self, prefix=""):
        return f"{self.bucket}/{prefix}".rstrip("/") + f"?{self.options}"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def need(path, what):
    """Return the path, if it is there."""
    if not path.exists():
        raise UnavailableError(f"{what} is not installed ({path}): make stores installs it")
    return path


def tool(name):
    """Return the command that installs something."""
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"{name} is not installed")
    return found


def run(command, **options):
    subprocess.run(command, check=True, **options)


@contextmanager
def process(command, folder, port, environ=None):
    """Start a server; go on when it listens, and end it by its id."""
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [str(each) for each in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=os.environ | (environ or {}),
        )
    try:
        wait_listening(port, server, log)
        yield server
    finally:
        end(server)


def end(server):
    with suppress(ProcessLookupError):
        server.send_signal(signal.SIGTERM)
    try:
        server.wait(STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def wait_listening(port, server, log):
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if server.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.02)


def wait_for_line(log, line, server):
    deadline = time.monotonic() + STARTS_WITHIN_S
    while line not in log.read_text(errors="replace"):
        assert server.poll() is None, f"the server ended: {log.read_text(errors='replace')[-2000:]}"
        assert time.monotonic() < deadline, f"the server did not start: {log.read_text()[-2000:]}"
        time.sleep(0.1)


# ------------------------------------------------------------------------------------------ S3


class Versitygw:
    """A gateway from S3 to files, in Go; it honours everything that the provider asks for."""

    quick = True
    release = "v1.8.0"

    def install(self):
        if not (CACHE / "versitygw").exists():
            install_go(f"github.com/versity/versitygw/cmd/versitygw@{self.release}")

    @contextmanager
    def start(self, folder):
        program = need(CACHE / "versitygw", "versitygw")
        port, data = free_port(), folder / "data"
        data.mkdir()
        command = [program, "--port", f"127.0.0.1:{port}", "--quiet", "posix", data]
        environ = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        with process(command, folder, port, environ):
            yield s3(port)


class Moto:
    """A mock of AWS, in Python."""

    quick = False
    release = "5.2.1"

    def install(self):
        if not (CACHE / "moto" / "bin" / "moto_server").exists():
            run([sys.executable, "-m", "venv", CACHE / "moto"])
            pip = [CACHE / "moto" / "bin" / "python", "-m", "pip", "install", "--quiet"]
            run([*pip, f"moto[s3,server]=={self.release}"])

    @contextmanager
    def start(self, folder):
        program = need(CACHE / "moto" / "bin" / "moto_server", "moto")
        port = free_port()
        with process([program, "-H", "127.0.0.1", "-p", str(port)], folder, port):
            yield s3(port)


class Radosgw:
    """Ceph's gateway with one monitor and one store in memory, from Debian's packages."""

    quick = False

    def install(self):
        root = CACHE / "ceph" / "root"
        if (root / "usr" / "bin" / "radosgw").exists():
            return
        packages = CACHE / "ceph" / "packages"
        (packages / "partial").mkdir(parents=True, exist_ok=True)
        options = [f"Dir::Cache::archives={packages}", "Debug::NoLocking=true"]
        command = [tool("apt-get"), "install", "-y", "-qq", "--no-install-recommends", "--download-only"]
        command += [part for option in options for part in ("-o", option)]
        run([*command, "radosgw", "ceph-mon", "ceph-osd"])
        for package in packages.glob("*.deb"):
            run([tool("dpkg"), "-x", package, root])

    @contextmanager
    def start(self, folder):
        root = need(CACHE / "ceph" / "root", "radosgw")
        ports = (free_port(), free_port())
        command = ["bash", str(FILES / "start_radosgw.sh"), str(root), str(folder), *map(str, ports)]
        with process(command, folder, ports[1]) as server:
            wait_for_line(folder / "server.log", "user made", server)
            yield s3(ports[1])


class S3Proxy:
    """A gateway from S3 to files, in Java, that ignores ``If-None-Match``: a store that must be refused."""

    quick = False
    release = "2.6.0"

    def install(self):
        if not (CACHE / "s3proxy").exists():
            install_maven("s3proxy", f"org.gaul:s3proxy:{self.release}")

    @contextmanager
    def start(self, folder):
        jars = need(CACHE / "s3proxy", "s3proxy")
        port, data = free_port(), folder / "data"
        (data / "bucket").mkdir(parents=True)
        (folder / "s3proxy.conf").write_text(
            f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={KEY}\ns3proxy.credential={SECRET}\njclouds.identity={KEY}\n"
            f"jclouds.credential={SECRET}\njclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={data}\n"
        )
        program = [tool("java"), "-Xmx256m", "-cp", f"{jars}/*", "org.gaul.s3proxy.Main"]
        with process([*program, "--properties", "s3proxy.conf"], folder, port):
            yield s3(port, bucket_is_there=True)


def s3(port, *, bucket_is_there=False):
    endpoint = f"http://127.0.0.1:{port}"
    if not bucket_is_there:
        make_s3_bucket(endpoint, "bucket", KEY, SECRET)
    return Running("s3://bucket", f"endpoint={endpoint}", S3_ENVIRONMENT)


# ------------------------------------------------------------------------------------------ others


class FakeGcs:
    """Google Cloud Storage in memory, in Go."""

    quick = True
    release = "v1.56.1"

    def install(self):
        if not (CACHE / "fake-gcs-server").exists():
            install_go(f"github.com/fsouza/fake-gcs-server@{self.release}")

    @contextmanager
    def start(self, folder):
        program = need(CACHE / "fake-gcs-server", "fake-gcs-server")
        port = free_port()
        endpoint = f"http://127.0.0.1:{port}"
        command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory"]
        command += ["-public-host", f"127.0.0.1:{port}", "-external-url", endpoint]
        with process(command, folder, port):
            make_gcs_bucket(endpoint, "bucket")
            yield Running("gs://bucket", f"anonymous=true&endpoint={endpoint}", {})


class Azurite:
    """Azure Blob Storage in memory, in JavaScript."""

    quick = False
    release = "3.35.0"

    def install(self):
        if not (CACHE / "azurite" / "node_modules" / ".bin" / "azurite-blob").exists():
            command = [tool("npm"), "install", "--silent", "--no-audit", "--no-fund"]
            run([*command, "--prefix", CACHE / "azurite", f"azurite@{self.release}"])

    @contextmanager
    def start(self, folder):
        program = need(CACHE / "azurite" / "node_modules" / ".bin" / "azurite-blob", "azurite")
        port = free_port()
        endpoint = f"http://127.0.0.1:{port}/acc"
        command = [tool("node"), program, "--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort"]
        command += [port, "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        with process(command, folder, port, {"AZURITE_ACCOUNTS": f"acc:{AZURE_KEY}"}):
            make_azure_container(endpoint, "container", "acc", AZURE_KEY)
            environment = {"AZURE_STORAGE_KEY": AZURE_KEY}
            options = f"account=acc&endpoint={endpoint}"
            yield Running("az://container", options, environment)


def install_go(module):
    CACHE.mkdir(parents=True, exist_ok=True)
    run([tool("go"), "install", module], env=os.environ | {"GOBIN": str(CACHE)}, cwd=CACHE)


def install_maven(name, artifact):
    group, module, release = artifact.split(":")
    building = CACHE / f"{name}.new"
    building.mkdir(parents=True, exist_ok=True)
    (building / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>none</groupId><artifactId>none</artifactId>"
        f"<version>1</version><dependencies><dependency><groupId>{group}</groupId><artifactId>{module}"
        f"</artifactId><version>{release}</version></dependency></dependencies></project>"
    )
    command = [tool("mvn"), "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=."]
    run(command, cwd=building)
    building.rename(CACHE / name)


EVERY = os.environ.get("STORES_TESTED") == "all"
"""Whether a run is that of ``make stores``, which takes its time."""

SERVERS = {
    "versitygw": Versitygw(),
    "fake-gcs-server": FakeGcs(),
    "moto": Moto(),
    "azurite": Azurite(),
    "s3proxy": S3Proxy(),
    "radosgw": Radosgw(),
}
"""Those that start in a second, if they are installed, are part of ``make test``."""

GOOD = sorted(set(SERVERS) - {"s3proxy"})


def on(names):
    """Run a test, or a class of them, on each of these servers: fixture ``server``."""
    return pytest.mark.parametrize("started", names, indirect=True, scope="module")


def main():
    """Install what is missing; a server that cannot be had is named with the reason."""
    for name, server in SERVERS.items():
        print(f"{name}: ", end="", flush=True)
        try:
            server.install()
        except (UnavailableError, subprocess.CalledProcessError, OSError) as error:
            print(f"not installed: {error}")
        else:
            print("installed")


if __name__ == "__main__":
    main()
