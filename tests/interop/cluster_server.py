"""A cluster of processes with the face of a ``LocalServer``, as far as interop tests use it."""

import asyncio

from tests.integration.cluster_storm.processes import Processes


class ClusterServer:
    """Three stores and two controllers. The end of the context kills them."""

    def __init__(self, directory, *, environment=None):
        self._processes = Processes(directory, environment=environment or {})
        self._runner = asyncio.Runner()

    def __enter__(self):
        self._runner.run(self._processes.__aenter__())
        return self

    def __exit__(self, *_):
        self._runner.run(self._processes.__aexit__())
        self._runner.close()

    @property
    def uri(self):
        """Of all controllers."""
        return self._processes.uri

    def log(self):
        """Return what all processes have said."""
        return "".join(each.log() for each in self._processes.members)

    def stop(self):
        """End all of them in order; return the worst exit code."""
        return self._runner.run(self._stop())

    async def _stop(self):
        stores = await asyncio.gather(*(each.stop() for each in self._processes.stores))
        controllers = await asyncio.gather(*(each.stop() for each in self._processes.controllers))
        return max(*stores, *controllers)
