import asyncio

from headrace.coordination.lease import Lease
from headrace.testing.simulation import simulate


def test_a_lease_lasts_from_the_sending_of_what_was_answered_last():
    async def main(sim):
        loop = asyncio.get_running_loop()
        lease = Lease(5.0)
        await asyncio.sleep(4)
        sent = loop.time()
        await asyncio.sleep(0.9)
        lease.renew(sent)
        await asyncio.sleep(4)
        assert lease.is_valid
        assert not lease.lost.is_set()
        await asyncio.sleep(0.2)
        assert not lease.is_valid
        await lease.lost.wait()

    simulate(1, main)


def test_an_answer_after_all_makes_it_valid_again_but_it_was_lost():
    async def main(sim):
        loop = asyncio.get_running_loop()
        lease = Lease(5.0)
        await lease.lost.wait()
        lease.renew(loop.time())
        assert lease.is_valid
        assert lease.lost.is_set()
        lease.end()
        lease.renew(loop.time())
        assert not lease.is_valid

    simulate(1, main)


def test_without_a_duration_it_is_valid_until_the_session_ends():
    async def main(sim):
        lease = Lease()
        await asyncio.sleep(3000)
        assert lease.is_valid
        lease.end()
        assert not lease.is_valid
        assert lease.lost.is_set()

    simulate(1, main)


def test_a_process_that_was_paused_for_too_long_knows_when_it_goes_on():
    async def main(sim):
        host = sim.host("one")
        seen = []

        async def program():
            lease = Lease(5.0)
            while True:
                seen.append((asyncio.get_running_loop().time(), lease.is_valid))
                await asyncio.sleep(1)

        task = host.spawn("program", program())
        await asyncio.sleep(2.5)
        host.pause()
        await asyncio.sleep(20)
        host.resume()
        await asyncio.sleep(0.5)
        assert [valid for _, valid in seen] == [True, True, True, False]
        task.cancel()

    simulate(1, main)
