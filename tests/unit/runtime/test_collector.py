import gc

from headrace.runtime.collector import THRESHOLDS, CollectorWatch, tune_collector


def test_a_collection_is_measured_between_install_and_remove():
    watch = CollectorWatch()
    watch.install()
    watch.install()
    try:
        gc.collect()
    finally:
        watch.remove()
        watch.remove()
    seen = watch.statistics()
    assert seen.collections[2] == 1
    assert 0 < seen.pause_seconds_max[2] <= seen.pause_seconds_total[2]
    assert sum(seen.pauses_by_bucket) == sum(seen.collections)
    gc.collect()
    assert seen.collections[2] == 1


def test_pauses_fall_into_the_bucket_with_the_next_upper_edge():
    watch = CollectorWatch()
    for pause_s in (0.00005, 0.0001, 0.00011, 5.0):
        watch.record(0, pause_s)
    assert watch.statistics().pauses_by_bucket == [2, 1, 0, 0, 0, 0, 0, 0, 1]


def test_tuning_sets_the_thresholds_and_freezes_what_exists():
    before = gc.get_threshold()
    try:
        tune_collector()
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
