"""Breaks one host again and again, in every way a host can break, and lets a watchdog start it anew.

The watchdog is not part of the host: it notices after a while that the process is gone, as an operator's
tool would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final

from headrace.errors import HeadraceError
from headrace.runtime.context import Runtime
from headrace.testing.disk import Moment
from headrace.testing.host import HostDownError, SimulatedHost
from headrace.testing.simulation import Simulation


class HostFault(Enum):
    """One way in which a host breaks."""

    KILL = "kill"
    POWER_LOSS = "power loss"
    POWER_LOSS_AT_WRITE = "power loss at one of the next durable writes"
    DROP_CONNECTIONS = "drop connections"
    CLOG = "clog"
    SLOW_DISK = "slow disk"
    FAILED_CALL = "failed disk call"


_FALLIBLE: Final = (
    "pwrite",
    "fdatasync",
    "fsync",
    "fsync_directory",
    "pread_into",
    "rename",
    "unlink",
    "open",
)


class HostFaults:
    """Breaks ``host`` every ``every_s`` seconds on average, by one of ``kinds``."""

    def __init__(
        self,
        sim: Simulation,
        host: SimulatedHost,
        *,
        every_s: float,
        kinds: tuple[HostFault, ...] = tuple(HostFault),
    ) -> None:
        self.injected: dict[HostFault, int] = dict.fromkeys(kinds, 0)
        self._sim = sim
        self._host = host
        self._every_s = every_s
        self._entropy = sim.entropy.fork(f"faults-{host.name}")

    async def run(self) -> None:
        """Break things until cancelled."""
        kinds = list(self.injected)
        while kinds:
            await asyncio.sleep(2 * self._every_s * self._entropy.random())
            kind = kinds[self._entropy.randbelow(len(kinds))]
            self.injected[kind] += 1
            self._sim.trace.add("faults", "inject", kind=kind.value, host=self._host.name)
            self._inject(kind)

    def _inject(self, kind: HostFault) -> None:
        host, entropy = self._host, self._entropy
        if kind is HostFault.KILL:
            host.kill()
        elif kind is HostFault.POWER_LOSS:
            host.lose_power()
        elif kind is HostFault.POWER_LOSS_AT_WRITE:
            number = host.disk.statistics().durable_writes + 1 + entropy.randbelow(10)
            host.disk.plan_power_loss(number, list(Moment)[entropy.randbelow(len(Moment))])
        elif kind is HostFault.DROP_CONNECTIONS:
            self._sim.network.drop_connections(host.name)
        elif kind is HostFault.CLOG:
            rest = [name for name in self._sim.hosts if name != host.name]
            if rest:
                pair = [host.name, rest[entropy.randbelow(len(rest))]]
                if entropy.randbelow(2):
                    pair.reverse()
                self._sim.network.clog(pair[0], pair[1], 8 * entropy.random())
        elif kind is HostFault.FAILED_CALL:
            host.disk.fail(_FALLIBLE[entropy.randbelow(len(_FALLIBLE))], skip=entropy.randbelow(5))
        else:
            host.disk.slowness = 10.0 ** entropy.randbelow(4)


async def keep_running(
    sim: Simulation,
    host: SimulatedHost,
    program: Callable[[Runtime], Coroutine[Any, Any, None]],
    *,
    pause_s: float = 0.2,
) -> None:
    """Start ``program`` on ``host`` whenever the host is down, until cancelled.

    ``program`` returns once it serves. If it fails for a reason that the world can give it, its process ends
    and is started again after a pause; any other exception is a mistake and reaches the caller.
    """
    serving = False
    while True:
        if not host.is_up:
            host.boot()
            serving = False
        if not serving:
            try:
                await host.run(program(host.runtime))
                serving = True
            except HostDownError:
                continue
            except (HeadraceError, OSError) as error:
                sim.trace.add("watchdog", "exit", host=host.name, error=type(error).__name__)
                host.kill()
        await asyncio.sleep(pause_s)
