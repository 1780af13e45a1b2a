import asyncio

from headrace.cluster.lease_gate import LeaseGate
from headrace.coordination.lease import Lease


async def test_a_gate_is_open_for_what_is_claimed_while_the_lease_is_valid():
    gate = LeaseGate()
    assert not gate.is_open
    lease = Lease(5.0)
    gate.begin(lease)
    gate.admit(1)
    assert [gate.serves(number) for number in range(3)] == [False, True, False]
    await asyncio.sleep(5.1)
    assert not gate.serves(1)
    lease.renew(asyncio.get_running_loop().time())
    assert gate.serves(1)
    gate.withdraw(1)
    assert not gate.serves(1)
    gate.admit(1)
    gate.end()
    assert not gate.serves(1)
    gate.begin(Lease(5.0))
    assert gate.is_open
    assert not gate.serves(1)
