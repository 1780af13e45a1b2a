"""Strikes a cluster of real processes under load, and judges what clients were told.

``python -m tests.integration.cluster_storm.storm --seed 1 --faults 20`` runs one by hand and tells of it;
``--log s3`` has logs and chunks in a bucket, and a store that is killed loses its disk; ``--keep DIRECTORY``
leaves data and logs there.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headrace.client import ClientConfig, connect
from tests.integration.cluster_storm.foreign import KINDS
from tests.integration.cluster_storm.load import SCOPE, Ledger
from tests.integration.cluster_storm.pinned import Pinned
from tests.integration.cluster_storm.processes import LONG_S, POLL_S, Processes, in_bucket
from tests.integration.cluster_storm.schedule import OF_STORES, OF_ZOOKEEPER, Kind, draw_schedule
from tests.integration.cluster_storm.stalls import Stalls, described
from tests.stores.small_s3 import beside

PATIENT = ClientConfig(control_attempts=200)
WRITES = ("events", "moving", "retained")
"""What the names of flows of events begin with."""
ROUNDS = 5
"""Answers that a flow of events needs to be past a fault: some are in sockets when it happens."""


OFTEN = {
    "HEADRACE_CONTROLLER__RETENTION__PERIOD_S": "0.5",
    "HEADRACE_CONTROLLER__WATERMARKS__PERIOD_S": "0.5",
}
"""What controllers do now and then they do often."""


@dataclass
class Report:
    """What a storm did, and what it showed."""

    faults: int = 0
    lines: list = field(default_factory=list)
    waits: list = field(default_factory=list)
    """The longest wait of an acknowledgement under each strike but those at ZooKeeper, in seconds."""
    done: dict = field(default_factory=dict)

    def __str__(self):
        counts = ", ".join(f"{number} {what}" for what, number in self.done.items())
        return f"{self.faults} faults; waits of acknowledgements: {described(self.waits)}; {counts}"


class Storm:
    """One cluster under load, and what strikes it."""

    def __init__(self, processes, ledger, pinned, stalls, tell):
        self._processes = processes
        self._ledger = ledger
        self._pinned = pinned
        self._stalls = stalls
        self._tell = tell
        self._flows = ledger.flows()
        self.report = Report()

    async def run(self, strikes):
        """Strike again and again under load; then let all end, and judge."""
        jobs = self._ledger.jobs() | self._pinned.jobs()
        async with asyncio.TaskGroup() as group:
            for name, job in jobs.items():
                group.create_task(job, name=name)
            await self._answered()
            for number, strike in enumerate(strikes):
                await self._strike(number, strike)
            self._ledger.stopping = self._pinned.stopping = True
        await self._processes.served()
        self._pinned.check()
        await self._ledger.check()
        self.report.done = {**self._ledger.done, "answers of segments": self._pinned.answers}
        await self._end()

    async def _strike(self, number, strike):
        period, began = f"strike {number}", time.monotonic()
        self._stalls.begin(period)
        await asyncio.gather(*(self._suffer(fault) for fault in strike))
        await self._answered()
        await self._processes.served()
        wait, flow = self._stalls.longest(period, WRITES)
        slowest, what = self._stalls.longest(period)
        self.report.faults += len(strike)
        if not any(fault.kind in OF_ZOOKEEPER for fault in strike):
            self.report.waits.append(wait)
        names = " and ".join(each.kind.value for each in strike)
        self._tell(
            f"{number}: {names}: {time.monotonic() - began:.1f} s, acknowledgement {wait:.1f} s ({flow}), "
            f"longest {slowest:.1f} s ({what})"
        )
        self._stalls.begin("calm")

    async def _suffer(self, fault):
        """Let one fault happen, and mend it."""
        processes = self._processes
        if fault.kind is Kind.SLEEP_ZOOKEEPER:
            processes.zookeeper.suspend()
            await asyncio.sleep(fault.lasts_s)  # the fault itself
            processes.zookeeper.resume()
        elif fault.kind is Kind.RESTART_ZOOKEEPER:
            processes.zookeeper.kill()
            await asyncio.sleep(fault.lasts_s)  # the fault itself
            await asyncio.to_thread(processes.zookeeper.start)
        else:
            await self._suffer_at(await self._victim(fault), fault)

    async def _victim(self, fault):
        processes = self._processes
        if fault.kind in OF_STORES:
            return processes.stores[fault.which % len(processes.stores)]
        leader = await processes.leader()
        if fault.kind is Kind.KILL_CONTROLLER:
            return next((each for each in processes.controllers if each is not leader), leader)
        return leader

    async def _suffer_at(self, member, fault):
        match fault.kind:
            case Kind.SLEEP_STORE | Kind.NAP_STORE | Kind.SLEEP_LEADER:
                member.signal(signal.SIGSTOP)
                await asyncio.sleep(fault.lasts_s)  # the fault itself
                member.signal(signal.SIGCONT)
                return
            case Kind.FREEZE_STORE | Kind.FREEZE_LEADER:
                member.signal(signal.SIGSTOP)
                await self._answered()
                member.signal(signal.SIGCONT)
                return
            case Kind.DRAIN_STORE | Kind.STOP_LEADER:
                code = await member.stop()
                assert code == 0, f"{member.name} ended with {code}: {member.log()[-3000:]}"
            case _:
                member.kill()
                member.lose_disk()
        if not fault.at_once:
            await self._answered()
        member.start()
        await member.started()

    async def _answered(self):
        """Wait until every flow has been answered again, by what was asked meanwhile."""
        before = dict(self._stalls.answers)
        missing = list(self._flows)
        try:
            async with asyncio.timeout(LONG_S):
                while missing := [flow for flow in missing if not self._is_past(flow, before)]:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"not answered within {LONG_S} s: {missing}") from None

    def _is_past(self, flow, before):
        more = ROUNDS if flow.startswith(WRITES) else 1
        return self._stalls.answers[flow] >= before.get(flow, 0) + more

    async def _end(self):
        """End every process in order, stores at the same time, and look at what they have logged."""
        for members in (self._processes.stores, self._processes.controllers):
            codes = await asyncio.gather(*(member.stop() for member in members))
            assert not any(codes), [each.log()[-3000:] for each in members]
        for member in self._processes.members:
            assert "Traceback" not in member.log(), f"{member.name}: {member.log()[-6000:]}"


async def run_storm(directory, seed, strikes, *, session_s=6.0, round_s=0.05, others=(), tell=print, **sizes):
    """Run one storm in a directory; return its report.

    Args:
        directory: where data and logs are; they stay.
        seed: of what clients choose.
        strikes: what happens to the cluster.
        session_s: how long a session with ZooKeeper lasts without a sign of life.
        round_s: between two rounds of each client.
        others: kinds of clients that are not ours, and write as well.
        tell: takes a line about each strike.
        sizes: of the cluster, and where its logs are, as `Processes` takes them.
    """
    stalls = Stalls(time.monotonic)
    async with AsyncExitStack() as stack:
        processes = await stack.enter_async_context(
            Processes(directory, session_s=session_s, environment=OFTEN, **sizes)
        )
        client = await stack.enter_async_context(connect(processes.uri, PATIENT))
        ledger = Ledger(client, random.Random(seed), stalls, round_s, others)
        await ledger.prepare()
        await client.create_stream(SCOPE, "pinned", segments=2)
        segments = [f"{SCOPE}/pinned/{each}.#epoch.0" for each in range(2)]
        pinned = Pinned(segments, processes.stores, seed)
        storm = Storm(processes, ledger, pinned, stalls, tell)
        await storm.run(strikes)
        return storm.report


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--session", type=float, default=6.0)
    parser.add_argument("--zookeeper", type=float, default=30.0, help="seconds that ZooKeeper is away")
    parser.add_argument("--others", nargs="*", default=[], choices=KINDS, help="clients that are not ours")
    parser.add_argument("--log", choices=("files", "s3"), default="files", help="where logs and chunks are")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="storm-"))
        directory = options.keep or Path(temporary)
        report = asyncio.run(
            run_storm(
                directory,
                options.seed,
                draw_schedule(options.seed, options.faults, options.session, options.zookeeper),
                session_s=options.session,
                others=options.others,
                places=in_bucket(stack.enter_context(beside())) if options.log == "s3" else None,
                tell=lambda line: print(f"seed {options.seed}: {line}", flush=True),
            )
        )
    print(f"seed {options.seed}: {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
