"""What a person may choose about a process: a segment store by itself, or with a controller beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, get_args

from headrace.controller.config import ControllerConfig
from headrace.data_directory.record import CONTAINERS_MAX
from headrace.errors import InvalidArgumentError
from headrace.limits import GIB, MIB
from headrace.model.endpoint import Endpoint, is_wildcard
from headrace.runtime.settings import tunable
from headrace.security.config import AuthConfig
from headrace.security.tls_config import TlsConfig
from headrace.segmentstore.attributes.page_cache import PAGE_CACHE_BYTES
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.files.filesystem import FilesystemProviderConfig
from headrace.storage.providers.location import StorageLocation
from headrace.wal.config import WalConfig
from headrace.wal.loop_writes import LoopWritesConfig

Part = Literal["controller", "segmentstore", "rest"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
"""What clients connect to, each on a port of its own."""

_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStoreConfig:
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    parts: ClassVar[tuple[Part, ...]] = ("segmentstore", "rest")

    data_dir: str = tunable("headrace-data", help="Directory of all data.")
    storage: str | None = tunable(
        None,
        help="URI of long-term storage: s3://bucket/prefix, gs://, az://, hdfs://host:port/directory or "
        "file:///mnt/chunks; no secrets. None: as the last start; for a new directory, `chunks` in it.",
    )
    in_memory: bool = tunable(default=False, help="Store nothing on disk; all data are lost at the end.")
    host: str = tunable("127.0.0.1", help="Address to listen on, and to tell clients.")
    advertise: str | None = tunable(
        None, help="Host to tell clients instead; required if `host` is a wildcard such as 0.0.0.0."
    )
    advertise_segmentstore: str | None = tunable(
        None, help="HOST[:PORT] to tell clients for the data protocol, if it differs, as behind mapped ports."
    )
    advertise_rest: str | None = tunable(None, help="HOST[:PORT] to tell clients for REST, if it differs.")
    rest_hosts: tuple[str, ...] = tunable(
        (),
        help="Further host names under which REST is asked, as that of a proxy. Addresses, localhost, the "
        "machine's name and advertised ones need not be listed; requests for other names are refused.",
    )
    segmentstore_port: int = tunable(12345, low=0, high=_PORT_MAX, help="Port of the data protocol.")
    rest_port: int = tunable(10080, low=0, high=_PORT_MAX, help="Port of the REST interface.")
    ready_file: str | None = tunable(None, help="Written as JSON once clients may connect.")
    containers: int | None = tunable(
        None,
        low=1,
        high=CONTAINERS_MAX,
        help="Fixed once data exist. None: as the directory was made; 4 for a new one.",
    )
    cache_bytes: int = tunable(
        512 * MIB,
        low=16 * MIB,
        high=1024 * GIB,
        help="Capacity of the cache of all containers together, unstored events included.",
    )
    cache_soft_bytes: int = tunable(
        160 * MIB,
        low=16 * MIB,
        high=1024 * GIB,
        help="Part of the capacity that any event may use; the rest is for unstored events only.",
    )
    index_cache_bytes: int = tunable(
        PAGE_CACHE_BYTES,
        low=1 * MIB,
        high=1024 * GIB,
        help="Pages in memory of the indexes of tables and attributes, of all containers together.",
    )
    frames_max: int = tunable(
        12,
        low=10,
        high=1024,
        help="Log frames of 2 MiB per container; together they hold the largest append, 16 MiB.",
    )
    connections_max: int = tunable(
        10_000,
        low=1,
        high=1_000_000,
        help="Connections of the data protocol at a time; fewer if the limit of open files is low.",
    )
    connection_bytes_max: int = tunable(
        512 * MIB,
        low=1,
        high=1024 * GIB,
        help="What all of them together may take of memory besides their buffers: large frames on their way, "
        "requests that run, replies that are not taken, reads that wait, writers that are set up.",
    )
    connection_stall_s: float = tunable(
        30.0,
        low=0.1,
        high=3600.0,
        help="While others wait for some of it, a client is closed that does not send the frame, or take the "
        "reply, for which it has some, in this time; or nothing of it for a sixth of this time.",
    )
    container: ContainerConfig = field(default_factory=ContainerConfig)
    chunk_threads: ChunkThreadsConfig = field(default_factory=ChunkThreadsConfig)
    chunk_files: FilesystemProviderConfig = field(default_factory=FilesystemProviderConfig)
    loop_writes: LoopWritesConfig = field(default_factory=LoopWritesConfig)
    auth: AuthConfig = field(default_factory=AuthConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)

    def check(self) -> None:
        """Check relations between settings, and that directory and host are names that can be looked up.

        Raises InvalidArgumentError.
        """
        if self.containers is not None and not 1 <= self.containers <= CONTAINERS_MAX:
            raise InvalidArgumentError(f"{self.containers} containers: 1 to {CONTAINERS_MAX}")
        for part in self.parts:
            port: int = getattr(self, f"{part}_port")
            if not 0 <= port <= _PORT_MAX:
                raise InvalidArgumentError(f"{port} is no port: 1 to {_PORT_MAX}, or 0 for any free one")
        if not (self.data_dir or self.in_memory):
            raise InvalidArgumentError("data_dir is empty: it names the directory of all data")
        if self.storage is not None:
            if self.in_memory:
                raise InvalidArgumentError("with in_memory nothing is stored: leave out storage")
            StorageLocation.parse(self.storage)
        _check_host("host", self.host, "it names the address to listen on, and to tell clients")
        if self.advertise is not None:
            _check_host("advertise", self.advertise, "it names the address to tell clients")
        for name in self.rest_hosts:
            _check_host("rest_hosts", name, "it lists names by which REST is asked")
        self.tls.check()
        for part in self.parts:
            self._check_advertised(part)

    def _check_advertised(self, part: Part) -> None:
        key, told = f"advertise_{part}", self.advertised(part, 0).host
        _check_host(key, told, "it names the address to tell clients")
        if not is_wildcard(told):
            return
        given = next((name for name in (key, "advertise") if getattr(self, name) is not None), "host")
        raise InvalidArgumentError(
            f"{given} = {told!r} is every address of this machine, which no client can connect to: "
            "name the address or host that clients use with --advertise HOST (HEADRACE_ADVERTISE)"
        )

    def advertised(self, part: Part, port: int) -> Endpoint:
        """Return where clients find a part that listens on ``port``.

        Raises:
            InvalidArgumentError: the setting has not the form HOST[:PORT].
        """
        given: str | None = getattr(self, f"advertise_{part}")
        if given is None:
            return Endpoint(self.advertise or self.host, port)
        try:
            return Endpoint.parse(given, port)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"advertise_{part} = {error}") from None

    def rest_names(self) -> tuple[str, ...]:
        """Return the names of hosts under which REST is asked, as far as settings say it."""
        return (self.host, *(self.advertised(part, 0).host for part in self.parts), *self.rest_hosts)

    def cache_bytes_wanted(self, containers: int) -> int:
        """How large the cache must be for so many containers to be under full load at the same time."""
        return 2 * containers * self.frames_max * WalConfig().frame_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig(SegmentStoreConfig):
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    parts: ClassVar[tuple[Part, ...]] = PARTS

    advertise_controller: str | None = tunable(
        None, help="HOST[:PORT] to tell clients for control calls, if it differs, as behind mapped ports."
    )
    controller_port: int = tunable(9090, low=0, high=_PORT_MAX, help="Port of the control calls (gRPC).")
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    scaling: ScalingConfig = field(default_factory=ScalingConfig)


def _check_host(key: str, host: str, meaning: str) -> None:
    """Raises InvalidArgumentError unless ``host`` is a name that can be looked up, or an address."""
    if not host:  # the system would take it for every address there is
        raise InvalidArgumentError(f"{key} is empty: {meaning}")
    if "[" in host or "*" in host or (host.count(":") == 1):
        raise InvalidArgumentError(
            f"{key} = {host!r} is no host: a port, a star or brackets do not belong to it; an IPv6 address "
            "is ::1"
        )
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise InvalidArgumentError(f"{key} = {host!r} is no name of a host: {error}") from None
