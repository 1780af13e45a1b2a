"""The test kit, shipped for authors of providers, logs or applications: a local server, simulated time,
disks and networks, histories with their checkers, and conformance kits.

Nothing in the product imports it but the demo, which starts a local server.
``docs/contributing/simulation.md`` says how to simulate.
"""

from headrace.testing.local_server import LocalServer, ServerDiedError

__all__ = ["LocalServer", "ServerDiedError"]
