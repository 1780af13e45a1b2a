import pytest

from headrace.cluster.loads import ContainerLoad, ContainerLoads

BUSY = ContainerLoad(8 * 1024 * 1024, 1000)


def test_an_idle_container_weighs_one_and_a_first_report_counts_in_full():
    loads = ContainerLoads(2)
    loads.report(1, BUSY, 10.0)
    assert loads.weights == [1.0, 4.0]


def test_a_load_is_smoothed_over_minutes():
    loads = ContainerLoads(1)
    loads.report(0, ContainerLoad(0.0, 0), 0.0)
    for second in range(1, 121):
        loads.report(0, BUSY, float(second))
        if second == 1:
            assert loads.weights[0] < 1.1
    assert loads.weights[0] == pytest.approx(2.9, abs=0.05)  # 1 + 3 * (1 - 1/e)
    for second in range(121, 1200):
        loads.report(0, BUSY, float(second))
    assert loads.weights[0] == pytest.approx(4.0, abs=0.01)
