"""Options under the names of Kafka's source: taken where they mean the same, else answered with ours."""

import pytest

from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.spark.options import parse_sink, parse_source


def _parse(**options):
    return parse_source({"scope": "s", "subscribe": "t", **options}, streaming=True)


def test_names_of_kafka_mean_ours():
    options = _parse(
        startingOffsets="earliest", endingOffsets="latest", failOnDataLoss="false", maxBytesPerTrigger="500"
    )
    assert (options.start, options.end) == ("earliest", "latest")
    assert (options.fail_on_data_loss, options.bytes_per_trigger) == (False, 500)
    assert options.choice.names == ("s/t",)
    assert not options.without_meaning
    timed = _parse(startingTimestamp="1732528800000", endingTimestamp="1732528800001")
    assert (timed.start, timed.end) == ("at 1732528800000", "at 1732528800001")
    assert parse_sink({"scope": "s", "topic": "t"}, streaming=True).stream == "t"


def test_an_alias_and_its_option_may_agree_and_not_differ():
    assert _parse(failOnDataLoss="false", fail_on_data_loss="false").fail_on_data_loss is False
    with pytest.raises(InvalidArgumentError, match="fail_on_data_loss and failondataloss mean the same"):
        _parse(failOnDataLoss="false", fail_on_data_loss="true")


@pytest.mark.parametrize(
    ("option", "value", "error", "sentence"),
    [
        ("startingOffsets", '{"t":{"0":23}}', InvalidArgumentError, "start_stream_cut"),
        ("kafka.bootstrap.servers", "host:9092", UnsupportedError, "controller"),
        ("kafka.group.id", "g", UnsupportedError, "no settings of Kafka"),
        ("assign", "{}", UnsupportedError, "start_stream_cut"),
        ("includeHeaders", "true", UnsupportedError, "names the column headers"),
        ("startingOffsetsByTimestamp", "{}", UnsupportedError, "start_timestamp"),
    ],
)
def test_what_means_something_else_is_refused_with_what_to_do(option, value, error, sentence):
    with pytest.raises(error, match=sentence):
        _parse(**{option: value})
