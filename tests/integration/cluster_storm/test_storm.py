"""A cluster of real processes under load, and what may happen to one of them or to two at once.

``storm.py`` runs a longer one by hand.
"""

import pytest

from tests.effort import soak
from tests.integration.cluster_storm.foreign import KINDS
from tests.integration.cluster_storm.processes import in_bucket
from tests.integration.cluster_storm.schedule import Fault, Kind, draw_schedule
from tests.integration.cluster_storm.storm import run_storm
from tests.stores.small_s3 import beside

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SHORT_S = 2.0
"""Session of the storm that is short."""
HANDFUL = [
    (Fault(Kind.KILL_STORE, 0), Fault(Kind.KILL_LEADER, at_once=True)),
    (Fault(Kind.FREEZE_STORE, 1),),
    (Fault(Kind.SLEEP_ZOOKEEPER, lasts_s=SHORT_S),),
]


async def test_what_was_acknowledged_survives_what_happens_to_processes(tmp_path):
    report = await run_storm(tmp_path, 0, HANDFUL, session_s=SHORT_S, round_s=0.2, containers=3, buckets=2)
    assert report.faults == 4
    assert report.done["events acknowledged"] > 200
    assert report.done["transactions committed"] > 0
    assert report.done["scales"] > 0


@soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2))
async def test_machines_that_are_lost_and_other_faults_over_a_log_in_a_bucket(tmp_path, seed):
    schedule = draw_schedule(seed, 25, 6.0, 30.0)
    assert any(fault.kind is Kind.KILL_STORE for strike in schedule for fault in strike)
    with beside() as s3:
        report = await run_storm(tmp_path, seed, schedule, others=KINDS, places=in_bucket(s3))
    print(f"seed {seed}: {report}")
    assert report.faults == 25


@soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(4))
async def test_a_hundred_faults(tmp_path, seed):
    report = await run_storm(tmp_path, seed, draw_schedule(seed, 25, 6.0, 30.0), others=KINDS)
    print(f"seed {seed}: {report}")
    assert report.faults == 25
