"""Names that other connectors use for the same: taken as ours, or refused with what to do instead. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import InvalidArgumentError, UnsupportedError

_ALIASES: Final = {
    "subscribe": "stream",
    "subscribepattern": "stream_pattern",
    "topic": "stream",
    "startingoffsets": "start_stream_cut",
    "endingoffsets": "end_stream_cut",
    "startingtimestamp": "start_timestamp",
    "endingtimestamp": "end_timestamp",
    "failondataloss": "fail_on_data_loss",
    "minpartitions": "min_partitions",
    "maxoffsetspertrigger": "max_events_per_trigger",
    "startingoffsetsbytimestampstrategy": "start_timestamp_strategy",
    "maxbytespertrigger": "approx_bytes_per_trigger",
    "username": "user",
    "tls_ca_file": "tls_ca",
}
"""Names in lower case, as Spark compares them, and what they are here."""

_WORDS_ONLY: Final = {"startingoffsets": ("earliest", "latest"), "endingoffsets": ("latest",)}
"""Aliases that share words with ours and nothing else: their JSON has numbers of partitions."""

_ELSEWHERE: Final = {
    "kafka.bootstrap.servers": "the address is option controller: tcp://localhost:9090",
    "assign": "segments are not chosen one by one: start_stream_cut and end_stream_cut bound a read",
    "minoffsetspertrigger": "a batch waits for nothing: set the interval of the trigger",
    "maxtriggerdelay": "a batch waits for nothing: set the interval of the trigger",
    "includeheaders": "the schema, or option columns, names the column headers",
    "startingoffsetsbytimestamp": "one time is for all segments: start_timestamp",
    "endingoffsetsbytimestamp": "one time is for all segments: end_timestamp",
}


def translate(values: Mapping[str, str]) -> dict[str, str]:
    """Return options, whose names are in lower case, under our names.

    Raises:
        InvalidArgumentError: an alias and its option are given and differ, or the alias has a value that
            ours cannot have.
        UnsupportedError: a name of another connector means nothing here; it says what does.
    """
    translated = dict(values)
    for name in sorted(values):
        instead = _ELSEWHERE.get(name)
        if instead is None and name.startswith("kafka."):
            instead = "clients of Headrace have no settings of Kafka: see the options of headrace"
        if instead is not None:
            raise UnsupportedError(f"option {name}: {instead}")
        ours = _ALIASES.get(name)
        if ours is None:
            continue
        value = translated.pop(name)
        words = _WORDS_ONLY.get(name)
        if words is not None and value.lower() not in words:
            raise InvalidArgumentError(
                f"option {name} is {' or '.join(words)}, not {value!r}: {ours} takes the text of a cut, "
                "or JSON with offsets of segments"
            )
        if (translated.get(ours) or value) != value:
            raise InvalidArgumentError(
                f"options {ours} and {name} mean the same and differ: give one of them"
            )
        translated[ours] = value
    return translated
