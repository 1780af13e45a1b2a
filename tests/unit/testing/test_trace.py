from headrace.testing.trace import Trace


def test_a_line_has_time_source_event_and_fields():
    trace = Trace(lambda: 1.5)
    trace.add("disk", "pwrite", path="/a", data=b"\x01\xff", seconds=0.25)
    assert trace.lines == ["1.500000000 disk pwrite path=/a data=01ff seconds=0.250000000"]


def test_the_digest_covers_lines_that_are_no_longer_retained():
    retained, short = Trace(lambda: 0.0), Trace(lambda: 0.0, lines_retained=2)
    for trace in (retained, short):
        for number in range(10):
            trace.add("x", "y", n=number)
    assert len(short.lines) == 2
    assert short.count == 10
    assert short.digest == retained.digest
    short.add("x", "z")
    assert short.digest != retained.digest
