from datetime import timedelta

import pytest

from headrace.client.stream_options import asked_of, configuration_of, parts_said, retention_of
from headrace.errors import InvalidArgumentError
from headrace.model.policies import RetentionPolicy, ScalingPolicy, StreamConfiguration
from headrace.model.records import RECORDS_TAG

NOTHING = {"segments": None, "tags": None, "retention": None, "scaling": None}
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("wanted", "policy"),
    [
        ("7 days", RetentionPolicy.by_time(7 * DAY_MS)),
        ("1 Week", RetentionPolicy.by_time(7 * DAY_MS)),
        (" 12h", RetentionPolicy.by_time(DAY_MS // 2)),
        ("30 min", RetentionPolicy.by_time(1_800_000)),
        ("1.5 hours", RetentionPolicy.by_time(5_400_000)),
        ("10 GiB", RetentionPolicy.by_size(10 << 30)),
        ("500 MB", RetentionPolicy.by_size(500_000_000)),
        ("None", RetentionPolicy.none()),
        (timedelta(days=1), RetentionPolicy.by_time(DAY_MS)),
        (RetentionPolicy.by_size(1, 2), RetentionPolicy.by_size(1, 2)),
    ],
)
def test_retention_is_a_time_or_a_size(wanted, policy):
    assert retention_of(wanted) == policy


@pytest.mark.parametrize(
    "wanted", ["", "7", "30m", "7 moons", "days", "-1 h", "0 s", "0 GiB", timedelta(), 7, ["1 h"]]
)
def test_what_is_neither_is_refused(wanted):
    with pytest.raises(InvalidArgumentError, match="retention"):
        retention_of(wanted)


def test_keywords_say_what_a_configuration_says():
    scaling = ScalingPolicy.by_event_rate(100, 2, 4)
    given = StreamConfiguration(scaling=scaling, retention=RetentionPolicy.by_size(5), tags=frozenset("ab"))
    assert configuration_of(given, **NOTHING) is given
    keywords = {"scaling": scaling, "retention": "5 B", "tags": ["a", "b", "a"]}
    assert configuration_of(None, **{**NOTHING, **keywords}) == given
    assert configuration_of(None, **NOTHING) == StreamConfiguration()
    three = configuration_of(None, **{**NOTHING, "segments": 3})
    assert three == StreamConfiguration(scaling=ScalingPolicy.fixed(3))


def test_what_is_not_said_stays():
    present = StreamConfiguration(
        scaling=ScalingPolicy.fixed(3), tags=frozenset({"t"}), rollover_size_bytes=9, timestamp_timeout_ms=8
    )
    changed = configuration_of(None, **{**NOTHING, "retention": "1 d"}, present=present)
    assert changed.retention == RetentionPolicy.by_time(DAY_MS)
    assert (changed.scaling, changed.tags) == (present.scaling, present.tags)
    assert (changed.rollover_size_bytes, changed.timestamp_timeout_ms) == (9, 8)
    assert configuration_of(None, **{**NOTHING, "tags": ()}, present=present).tags == frozenset()


@pytest.mark.parametrize(
    ("given", "keywords", "why"),
    [
        (None, {"tags": 5}, "several texts"),
        (StreamConfiguration(), {"segments": 3, "tags": []}, "segments and tags beside a configuration"),
        (StreamConfiguration(), {"retention": "1 d"}, "retention beside"),
        (None, {"segments": 3, "scaling": ScalingPolicy.by_event_rate(5)}, "segments_min"),
        (None, {"segments": 0}, "1 to"),
        (None, {"segments": "3"}, "segments is a int"),
        (None, {"segments": True}, "segments is a int"),
        (None, {"tags": "shop"}, r"\['shop'\]"),
        (None, {"tags": [3]}, "texts"),
        (None, {"scaling": 3}, "ScalingPolicy"),
        ({"segments": 3}, {}, "StreamConfiguration"),
    ],
)
def test_what_is_said_twice_or_wrongly_is_refused(given, keywords, why):
    with pytest.raises(InvalidArgumentError, match=why):
        configuration_of(given, **{**NOTHING, **keywords})


def test_records_are_a_tag_that_stays():
    made = configuration_of(None, **{**NOTHING, "tags": ["shop"]}, records=True)
    assert made.tags == {"shop", RECORDS_TAG}
    assert configuration_of(None, **NOTHING, records=True).tags == {RECORDS_TAG}
    assert configuration_of(None, **NOTHING, records=False).tags == frozenset()
    assert configuration_of(None, **{**NOTHING, "tags": []}, present=made).tags == {RECORDS_TAG}
    with pytest.raises(InvalidArgumentError, match="records=True"):
        configuration_of(None, **{**NOTHING, "tags": [RECORDS_TAG]})
    with pytest.raises(InvalidArgumentError, match="records is a bool"):
        configuration_of(None, **NOTHING, records=1)


def test_who_says_nothing_of_records_takes_a_stream_as_it_is():
    plain = configuration_of(None, **{**NOTHING, "tags": ["shop"]})
    made = configuration_of(None, **{**NOTHING, "tags": ["shop"]}, records=True)

    def asked(**keywords):
        words = {**NOTHING, **keywords}
        return asked_of(configuration_of(None, **words), parts_said(None, **words), made)

    assert asked() == asked(tags=["shop"]) == asked(records=True) == made
    assert asked(tags=["shop"], records=True) == made
    assert asked(records=False) == plain
    assert asked(tags=[]).tags == {RECORDS_TAG}
    assert asked_of(plain, parts_said(plain, **NOTHING), made) == plain
