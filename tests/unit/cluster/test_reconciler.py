"""Every case of the table, and that it leads somewhere."""

import itertools

import pytest

from headrace.cluster.claim_node import Claim
from headrace.cluster.intent import Intent
from headrace.cluster.map_node import ContainerMap, Placement
from headrace.cluster.observed import Local, Phase, Unsure
from headrace.cluster.reconciler import COURTESY_S, Step, next_step

ME, OTHER = "me", "other"
NOW = 100.0
EPOCH = 7

NONE, MINE, MINE_BEFORE = None, Claim(ME, EPOCH), Claim(ME, EPOCH - 1)
THEIRS, THEIRS_LATER = Claim(OTHER, EPOCH - 1), Claim(OTHER, EPOCH + 1)
UNKNOWN = Unsure.UNKNOWN
CLAIMS = {
    "none": NONE,
    "mine": MINE,
    "mine_before": MINE_BEFORE,
    "theirs": THEIRS,
    "theirs_later": THEIRS_LATER,
    "unknown": UNKNOWN,
}

TABLE = {
    # phase, wanted: none, mine, mine of an epoch before, theirs, theirs of a later epoch, unknown
    (Phase.NONE, True): "GIVE DROP DROP WAIT_FOR_CLAIM WAIT_FOR_CLAIM LOOK",
    (Phase.NONE, False): "NOTHING DROP DROP NOTHING NOTHING LOOK",
    (Phase.STARTING, True): "NOTHING NOTHING NOTHING NOTHING NOTHING NOTHING",
    (Phase.STARTING, False): "TAKE TAKE TAKE TAKE TAKE TAKE",
    (Phase.RECOVERED, True): "CLAIM SERVE DROP WAIT_FOR_CLAIM TAKE LOOK",
    (Phase.RECOVERED, False): "TAKE TAKE TAKE TAKE TAKE TAKE",
    (Phase.SERVING, True): "CLAIM NOTHING DROP WAIT_FOR_CLAIM TAKE LOOK",
    (Phase.SERVING, False): "TAKE TAKE TAKE TAKE TAKE TAKE",
    (Phase.ENDING, True): "NOTHING NOTHING NOTHING NOTHING NOTHING NOTHING",
    (Phase.ENDING, False): "NOTHING NOTHING NOTHING NOTHING NOTHING NOTHING",
    (Phase.FENCED, True): "GIVE DROP DROP WAIT_FOR_CLAIM WAIT_FOR_CLAIM LOOK",
    (Phase.FENCED, False): "NOTHING DROP DROP NOTHING NOTHING LOOK",
    (Phase.FAILED, True): "GIVE DROP DROP WAIT_FOR_CLAIM WAIT_FOR_CLAIM LOOK",
    (Phase.FAILED, False): "NOTHING DROP DROP NOTHING NOTHING LOOK",
}


def test_the_table_has_every_case():
    assert set(TABLE) == set(itertools.product(Phase, (True, False)))


@pytest.mark.parametrize(("phase", "wanted"), TABLE)
def test_each_case_has_its_step(phase, wanted):
    steps = [next_step(ME, wanted, claim, Local(phase, EPOCH), NOW).name for claim in CLAIMS.values()]
    assert " ".join(steps) == TABLE[phase, wanted]


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "wanted"), TABLE)
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_failure_is_reported_before_anything_but_an_end(phase, wanted, claim):
    without = next_step(ME, wanted, claim, Local(phase, EPOCH, failures=2, reported=2), NOW)
    step = next_step(ME, wanted, claim, Local(phase, EPOCH, failures=3, reported=2), NOW)
    ends = phase is Phase.ENDING or (not wanted and without is Step.TAKE)
    assert step is (without if ends else Step.REPORT_FAILURE)


@pytest.mark.parametrize("phase", [Phase.NONE, Phase.FENCED, Phase.FAILED])
def test_the_claim_of_a_live_store_is_waited_for_so_long(phase):
    for waited_s, step in (
        (0, Step.WAIT_FOR_CLAIM),
        (COURTESY_S - 0.01, Step.WAIT_FOR_CLAIM),
        (COURTESY_S, Step.GIVE),
    ):
        local = Local(phase, EPOCH, waits_since_s=NOW - waited_s)
        assert next_step(ME, True, THEIRS, local, NOW) is step


@pytest.mark.parametrize("phase", [Phase.FENCED, Phase.FAILED])
def test_a_pause_ends(phase):
    local = Local(phase, EPOCH, retry_at_s=NOW + 1)
    assert next_step(ME, True, None, local, NOW) is Step.WAIT_FOR_PAUSE
    assert next_step(ME, True, None, local, NOW + 1) is Step.GIVE
    assert next_step(ME, False, MINE, local, NOW) is Step.DROP


def test_an_intent_is_the_part_of_a_map_that_is_one_stores():
    container_map = ContainerMap(3, (Placement(ME), Placement(OTHER), Placement(ME), Placement()))
    intent = Intent.of(ME, container_map)
    assert [intent.wants(number) for number in range(4)] == [True, False, True, False]
    assert intent.generation == 3
