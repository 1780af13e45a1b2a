"""A schedule of faults is what its seed says."""

from collections import Counter

from tests.integration.cluster_storm.schedule import OF_STORES, OF_ZOOKEEPER, SLEEPS, Kind, draw_schedule

SESSION_S = 6.0


def drawn(seed, faults=45):
    return draw_schedule(seed, faults, SESSION_S, 30.0)


def test_a_seed_decides():
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


def test_every_kind_is_drawn_once_in_a_deck():
    for seed in range(50):
        strikes = drawn(seed)
        faults = [fault for strike in strikes for fault in strike]
        assert len(faults) == 45
        assert min(Counter(fault.kind for fault in faults)[kind] for kind in Kind) == 3
        for fault in faults:
            least, most = SLEEPS.get(fault.kind, (0, 0))
            wanted = (30.0, 30.0) if fault.kind in OF_ZOOKEEPER else (SESSION_S * least, SESSION_S * most)
            assert wanted[0] <= fault.lasts_s <= wanted[1]


def test_faults_at_once_strike_different_processes():
    pairs = [strike for seed in range(200) for strike in drawn(seed) if len(strike) == 2]
    assert len(pairs) > 100
    for first, second in pairs:
        assert first.kind in OF_STORES or second.kind in OF_STORES
        if first.kind in OF_STORES and second.kind in OF_STORES:
            assert (first.which - second.which) % 3
