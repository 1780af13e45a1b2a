import time

from headrace.runtime.clock import SystemClock


def test_the_system_clock_counts_milliseconds_since_the_epoch():
    before = time.time()
    now = SystemClock().now_ms()
    assert before * 1000 - 1 <= now <= time.time() * 1000
