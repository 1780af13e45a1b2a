import asyncio

from headrace.client.blocking import connect as connect_blocking
from headrace.client.framing.event_frames import frame_list
from headrace.client.reader.event_batch import Event
from headrace.client.reader.event_rows import ROWS_MAX, html_rows
from headrace.client.reader.record_batch import Record
from headrace.client.records.envelope import encode_headers, prefix_of
from headrace.model.names import segment_name


def test_events_are_rows_and_what_is_in_them_is_no_markup():
    text = html_rows("s/<t>", [Event(b"<b>", 1, 7), Event(b"x" * 1000, 1, 20)])
    assert text.startswith(
        "<table><caption>s/&lt;t&gt;: all events</caption><tr><th>value</th><th>segment</th>"
    )
    assert "<td>b&#x27;&lt;b&gt;&#x27;</td><td>1</td><td>7</td>" in text
    assert len(text) < 500
    assert "no events" in html_rows("s/t", [])


def test_of_many_events_the_first_are_rows():
    text = html_rows("s/t", [Event(b"x", 0, n) for n in range(ROWS_MAX + 1)])
    assert "first 10 events" in text
    assert text.count("<td>0</td>") == ROWS_MAX + 1  # segments, and the first offset


def test_records_have_more_columns():
    record = Record(prefix_of("k", 0, encode_headers({"h": "1"})) + b"v", 0, 0)
    text = html_rows("s/t", [record])
    assert "<td>1970-01-01T00:00:00.000+00:00</td><td>k</td><td>{&#x27;h&#x27;: b&#x27;1&#x27;}</td>" in text


async def test_a_loop_shows_its_first_events_without_taking_them(system, client):
    system.controller.create("s", "t")
    segment = system.store.segments[segment_name("s", "t", 0)]
    segment.data += frame_list([b'{"n":%d}' % n for n in range(20)])[0]
    assert repr(client.read("s/t")) == "<headrace.aio.ReadLoop of s/t, not begun: use it in 'async for'>"

    def look():
        with connect_blocking(system.uri) as blocking:
            loop = blocking.read("s/t", follow=True, serializer="json")
            assert repr(loop) == "<headrace.ReadLoop of s/t, not begun: iterate over it>"
            assert "first 10 events" in loop._repr_html_()
            assert next(loop).value == {"n": 0}
            assert "{&#x27;n&#x27;: 0}" in loop._repr_html_()
            assert next(loop).value == {"n": 1}
            assert "<headrace.EventReader of s/t" in repr(loop)
            assert "all events" in blocking.read("s/t", limit=2)._repr_html_()
            loop.close()

    await asyncio.to_thread(look)
