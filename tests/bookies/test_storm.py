"""A cluster under load whose logs are on bookies: bookies fail while stores and controllers do."""

import itertools

import pytest

from tests.bookies.real_logs import NAMES
from tests.bookies.servers import BookKeeper
from tests.integration.cluster_storm.foreign import KINDS
from tests.integration.cluster_storm.processes import in_bucket
from tests.integration.cluster_storm.schedule import draw_schedule
from tests.integration.cluster_storm.storm import run_storm
from tests.stores.small_s3 import beside


class Troubles:
    """During every other strike of a storm one bookie is dead, or asleep.

    It is back for the strike between: a ledger of the time without it is on two bookies, and is recovered
    from both.
    """

    def __init__(self, bookies):
        self._turns = itertools.cycle([(bookie, fault) for fault in ("kill", "sleep") for bookie in bookies])
        self._mend = None

    def next(self, _):
        if self._mend is not None:
            self._mend()
            self._mend = None
            return
        bookie, fault = next(self._turns)
        if fault == "kill":
            bookie.kill()
            self._mend = bookie.start
        else:
            bookie.suspend()
            self._mend = bookie.resume


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2))
async def test_what_was_acknowledged_survives_lost_machines_while_bookies_fail(tmp_path, seed):
    with beside() as s3, BookKeeper(tmp_path / "bookkeeper", 3) as servers:
        places = [servers.uri(f"?system={next(NAMES)}"), in_bucket(s3)[1]]
        report = await run_storm(
            tmp_path / "cluster",
            seed,
            draw_schedule(seed, 15, 6.0, 10.0),
            others=KINDS,
            places=places,
            tell=Troubles(servers.bookies).next,
        )
    print(f"seed {seed}: {report}")
    assert report.faults == 15
