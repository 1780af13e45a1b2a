"""Controllers that share their buckets: what one leaves unfinished, another one finishes while it runs."""

import asyncio

import pytest

from headrace.controller.store.rows.stream_row import StreamState
from headrace.model.buckets import bucket_of
from headrace.rpc.generated import controller_pb2 as pb
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.simulation import simulate
from tests.unit.controller.calls import LEASE, ask, eventually, info
from tests.unit.controller.conftest import World, stream_config
from tests.unit.controller.mortality import Life, check_world, mortal_controller

State = pb.TxnState
SETTINGS = {"buckets": 16, "lease_ms_min": 1, "lease_grace_ms_min": 0}


class Pair:
    """Controllers ``one`` and ``other``, each in a process of its own; ``one`` may be killed."""

    def __init__(self, sim):
        self.sim = sim
        self.world = World(clock=sim.clock)
        self.world.coordinator = FaultyCoordinator(sim.entropy, CoordinationFaults())
        self.life = Life()
        self.one = mortal_controller(self.world, self.life, rpc_host="one", **SETTINGS)
        self.other = self.world.controller(rpc_host="other", **SETTINGS)

    async def start(self):
        await self.run("one", self.one.start())
        await ask(self.one, "create_scope", pb.ScopeInfo(scope="s"))
        await self.run("other", self.other.start())
        await eventually(self.are_both_owners)

    async def run(self, name, call):
        return await self.sim.host(name).run(call)

    async def are_both_owners(self):
        return len(self.one.context.buckets.owned()) == len(self.other.context.buckets.owned()) == 8

    def stream_of(self, controller):
        """Return the name of a stream in the last bucket of ``controller``."""
        last = max(controller.context.buckets.owned())
        return next(f"t{n}" for n in range(1000) if bucket_of("s", f"t{n}", 16) == last)

    async def create(self, controller, stream):
        answer = await ask(controller, "create_stream", stream_config(stream))
        assert answer.status == pb.CreateStreamStatus.SUCCESS

    async def begin(self, controller, stream, lease=LEASE):
        request = pb.CreateTxnRequest(streamInfo=info(stream), lease=lease)
        name = "one" if controller is self.one else "other"
        return await self.run(name, ask(controller, "create_transaction", request))

    async def state(self, controller, stream, txn):
        request = pb.TxnRequest(streamInfo=info(stream), txnId=txn.txnId)
        return (await ask(controller, "check_transaction_state", request)).state

    async def becomes(self, controller, stream, txn, state, within_s=60):
        async def reached():
            return await self.state(controller, stream, txn) == state

        await eventually(reached, within_s)

    async def becomes_sealed(self, stream):
        async def sealed():
            found = await self.other.context.directory.get("s", stream)
            return found.row.state is StreamState.SEALED

        await eventually(sealed, 60)

    async def kill_one(self):
        self.sim.host("one").kill()
        self.life.end()

    async def stop(self):
        await self.run("other", self.other.stop())
        for session in [*self.world.coordinator.sessions]:
            session.expire()


def together(scenario, seed=1):
    async def main(sim):
        pair = Pair(sim)
        await pair.start()
        await scenario(pair)
        await pair.stop()

    simulate(seed, main, limit_s=1e6)


def test_both_are_found_with_the_buckets_that_they_own():
    async def scenario(pair):
        for controller in (pair.one, pair.other):
            request = pb.ControllerToBucketMappingRequest()
            answer = await ask(controller, "get_controller_to_bucket_mapping", request)
            assert {name: list(ids.id) for name, ids in answer.mapping.items()} == {
                "one:9090": sorted(pair.one.context.buckets.owned()),
                "other:9090": sorted(pair.other.context.buckets.owned()),
            }
            servers = await ask(controller, "get_controller_server_list", pb.ServerRequest())
            assert sorted(each.endpoint for each in servers.nodeURI) == ["one", "other"]
        await pair.kill_one()
        await asyncio.sleep(7)
        servers = await ask(pair.other, "get_controller_server_list", pb.ServerRequest())
        assert [each.endpoint for each in servers.nodeURI] == ["other"]

    together(scenario)


def test_a_workflow_that_was_stopped_midway_is_finished_by_the_survivor():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        pair.life.left = 2  # the seal begins, and its controller dies
        pair.sim.host("one").spawn("seal", ask(pair.one, "seal_stream", info(stream)))
        await asyncio.wait_for(pair.life.over.wait(), 60)
        pair.sim.host("one").kill()
        await pair.becomes_sealed(stream)
        await check_world(pair.world, pair.other)

    together(scenario)


@pytest.mark.slow
def test_a_transaction_that_was_begun_on_a_dead_controller_expires():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.one, stream, lease=5_000)
        await pair.kill_one()
        assert await pair.state(pair.other, stream, txn) == State.OPEN
        await pair.becomes(pair.other, stream, txn, State.ABORTED)
        await check_world(pair.world, pair.other)

    together(scenario)


def test_a_transaction_that_a_dead_controller_decided_is_committed():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.one, stream)
        pair.life.left = 1
        request = pb.TxnRequest(streamInfo=info(stream), txnId=txn.txnId)
        pair.sim.host("one").spawn("commit", ask(pair.one, "commit_transaction", request))
        await asyncio.wait_for(pair.life.over.wait(), 60)
        pair.sim.host("one").kill()
        assert await pair.state(pair.other, stream, txn) == State.COMMITTING
        await pair.becomes(pair.other, stream, txn, State.COMMITTED)
        await asyncio.sleep(1)  # it is recorded, and its row goes
        await check_world(pair.world, pair.other)

    together(scenario)


@pytest.mark.slow
def test_whoever_is_asked_decides_and_the_stream_is_worked_on():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.other, stream)
        committed, aborted, left = [await pair.begin(pair.other, stream, lease=3_000) for _ in range(3)]
        for name, txn in (("commit_transaction", committed), ("abort_transaction", aborted)):
            await ask(pair.other, name, pb.TxnRequest(streamInfo=info(stream), txnId=txn.txnId))
        await pair.becomes(pair.one, stream, committed, State.COMMITTED)
        await pair.becomes(pair.one, stream, aborted, State.ABORTED)
        await pair.becomes(pair.one, stream, left, State.ABORTED)
        await check_world(pair.world, pair.other)

    together(scenario)


@pytest.mark.slow
def test_a_lease_that_is_extended_elsewhere_than_at_its_owner_does_not_run_out():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.one, stream, lease=3_000)
        for _ in range(20):
            request = pb.PingTxnRequest(streamInfo=info(stream), txnId=txn.txnId, lease=3_000)
            answer = await pair.run("other", ask(pair.other, "ping_transaction", request))
            assert answer.status == pb.PingTxnStatus.OK
            await asyncio.sleep(2.5)
        assert await pair.state(pair.one, stream, txn) == State.OPEN
        await pair.becomes(pair.one, stream, txn, State.ABORTED)

    together(scenario)


def test_a_controller_that_was_paused_beyond_its_lease_does_no_harm():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.one, stream, lease=5_000)
        pair.sim.host("one").pause()
        await asyncio.sleep(8)
        assert len(pair.other.context.buckets.owned()) == 16
        request = pb.PingTxnRequest(streamInfo=info(stream), txnId=txn.txnId, lease=500_000)
        answer = await pair.run("other", ask(pair.other, "ping_transaction", request))
        assert answer.status == pb.PingTxnStatus.OK
        await asyncio.sleep(20)
        pair.sim.host("one").resume()
        await eventually(pair.are_both_owners, 60)
        await asyncio.sleep(60)
        for controller in (pair.one, pair.other):
            assert await pair.state(controller, stream, txn) == State.OPEN
        request = pb.TxnRequest(streamInfo=info(stream), txnId=txn.txnId)
        await pair.run("one", ask(pair.one, "commit_transaction", request))
        await pair.becomes(pair.other, stream, txn, State.COMMITTED)
        await asyncio.sleep(1)  # it is recorded, and its row goes
        await check_world(pair.world, pair.other)

    together(scenario)


@pytest.mark.slow
def test_what_runs_out_while_its_controller_is_paused_is_left_to_the_new_owner():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.one, stream, lease=5_000)  # runs out after ten seconds
        pair.sim.host("one").pause()
        await asyncio.sleep(11)
        pair.sim.host("one").resume()
        await asyncio.sleep(2)
        assert await pair.state(pair.other, stream, txn) == State.OPEN, (
            "it has a full lease with its new owner"
        )
        await pair.becomes(pair.other, stream, txn, State.ABORTED, 6)

    together(scenario)


@pytest.mark.slow
def test_a_transaction_has_a_full_lease_with_the_owner_that_it_is_given_to():
    async def scenario(pair):
        await pair.run("other", pair.other.stop())
        await asyncio.sleep(1)
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.one, stream, lease=5_000)
        await asyncio.sleep(6)
        pair.other = pair.world.controller(rpc_host="other", **SETTINGS)
        await pair.run("other", pair.other.start())
        await eventually(pair.are_both_owners)
        assert pair.other.context.buckets.owns_stream("s", stream)
        await asyncio.sleep(6)
        assert await pair.state(pair.one, stream, txn) == State.OPEN
        await pair.becomes(pair.one, stream, txn, State.ABORTED, 6)

    together(scenario)


@pytest.mark.slow
def test_what_is_released_cleanly_goes_on_at_once():
    async def scenario(pair):
        stream = pair.stream_of(pair.one)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.one, stream, lease=5_000)
        await pair.run("one", pair.one.stop())
        await asyncio.sleep(1)
        assert len(pair.other.context.buckets.owned()) == 16
        assert pair.other.transactions.statistics()["armed"] == 1
        await pair.becomes(pair.other, stream, txn, State.ABORTED)

    together(scenario)


def test_a_request_whose_writer_died_before_it_told_the_owner_is_carried_out():
    async def scenario(pair):
        stream = pair.stream_of(pair.other)
        await pair.create(pair.one, stream)
        await pair.begin(pair.one, stream)
        pair.life.left = 1  # the row says that the stream is to be sealed
        pair.sim.host("one").spawn("seal", ask(pair.one, "seal_stream", info(stream)))
        await asyncio.wait_for(pair.life.over.wait(), 60)
        await pair.kill_one()
        await pair.becomes_sealed(stream)
        await check_world(pair.world, pair.other)

    together(scenario)


@pytest.mark.slow
def test_a_transaction_whose_creator_died_before_it_told_the_owner_expires():
    async def scenario(pair):
        stream = pair.stream_of(pair.other)
        await pair.create(pair.one, stream)
        first = await pair.begin(pair.one, stream)
        pair.life.left = 1  # the transaction has a row and nothing else
        pair.sim.host("one").spawn("begin", ask(pair.one, "create_transaction", create_request(stream)))
        await asyncio.wait_for(pair.life.over.wait(), 60)
        await pair.kill_one()
        found = await pair.other.context.directory.get("s", stream)
        assert len(await pair.other.context.registry.all_of(found.uid)) == 2
        await pair.becomes(pair.other, stream, first, State.ABORTED, 120)

        async def none_left():
            return not await pair.other.context.registry.all_of(found.uid)

        await eventually(none_left, 60)
        await check_world(pair.world, pair.other)

    together(scenario)


def create_request(stream):
    return pb.CreateTxnRequest(streamInfo=info(stream), lease=LEASE)


@pytest.mark.slow
def test_a_long_lease_runs_out_although_its_owner_looks_again_and_again():
    async def scenario(pair):
        stream = pair.stream_of(pair.other)
        await pair.create(pair.one, stream)
        txn = await pair.begin(pair.other, stream, lease=599_999)
        await asyncio.sleep(1_190)  # looks come every 900 s, and when a controller has gone
        await pair.kill_one()
        assert await pair.state(pair.other, stream, txn) == State.OPEN
        await asyncio.sleep(20)
        assert await pair.state(pair.other, stream, txn) == State.ABORTED

    together(scenario)
