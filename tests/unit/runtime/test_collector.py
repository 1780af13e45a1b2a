import gc

from headrace.runtime.collector import THRESHOLDS, is_tuned, tune_collector


def test_tuning_sets_the_thresholds_and_freezes_what_exists():
    before = gc.get_threshold()
    try:
        tune_collector()
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 1000
        assert is_tuned()
    finally:
        gc.set_threshold(*before)
