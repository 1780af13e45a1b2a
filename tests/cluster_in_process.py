"""Controllers and a segment store of one cluster on one loop, over real connections, with users and TLS.

They agree through a coordinator in memory. Nothing else is different from processes.
"""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from headrace.client import ClientConfig, Credentials, connect
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts
from headrace.coordination.memory import MemoryCoordinator
from headrace.data_directory.record import FORMAT
from headrace.processes.cluster_store import ClusterStoreServer
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.controller_server import ControllerServer
from headrace.security.config import AuthConfig
from headrace.security.tls_config import TlsConfig
from headrace.testing.users_files import write_users_file
from tests.certificates import CertificateFiles

CONTAINERS, BUCKETS = 2, 8
PASSWORD = "crimson-password"


@dataclass
class InProcess:
    """The addresses of its controllers, and how its user reaches them."""

    controllers: list
    config: ClientConfig
    coordinator: MemoryCoordinator
    store: ClusterStoreServer

    def connect(self, number=0):
        """Return a client of one controller."""
        return connect(f"tls://{self.controllers[number]}", self.config)


@asynccontextmanager
async def cluster_in_process(directory, *, controllers=1, **settings_of_store):
    """Run it, and yield an ``InProcess``."""
    files = CertificateFiles(directory / "certificates")
    users, key = str(directory / "users"), directory / "key"
    write_users_file(directory / "users", {"ann": (PASSWORD, "prn::*,READ_UPDATE")})
    key.write_bytes(b"0123456789abcdef" * 4)
    common = {
        "rest_port": 0,
        "auth": AuthConfig(users=users, token_key=str(key)),
        "tls": TlsConfig(cert=str(files.cert), key=str(files.key)),
    }
    coordinator = MemoryCoordinator()
    session = await coordinator.open()
    place = f"file://{directory}"
    facts = Facts("aa" * 16, CONTAINERS, BUCKETS, f"{place}/logs", f"{place}/chunks", FORMAT)
    await create_facts(session, facts)
    await session.close()
    async with AsyncExitStack() as stack:
        config_of_store = ClusterStoreConfig(
            segmentstore_port=0, controller_authority=str(files.ca), **common, **settings_of_store
        )
        store = ClusterStoreServer(config_of_store, coordinator, "memory")
        await store.start()
        stack.push_async_callback(store.stop)
        addresses = []
        for _ in range(controllers):
            at = {"coordinator": "zk://localhost/root", "controller_port": 0}
            server = ControllerServer(
                ControllerServerConfig(**at, store_authority=str(files.ca), **common), coordinator=coordinator
            )
            addresses.append((await server.start()).controller)
            stack.push_async_callback(server.stop)
        credentials = Credentials.basic("ann", PASSWORD)
        config = ClientConfig(tls_authorities=files.ca, credentials=credentials)
        yield InProcess(addresses, config, coordinator, store)
