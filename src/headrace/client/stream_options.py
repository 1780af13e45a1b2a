"""What is wanted of a stream, in keywords and texts, as a configuration. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, Final

from headrace.errors import InvalidArgumentError
from headrace.model.policies import RetentionPolicy, ScalingPolicy, StreamConfiguration, check_retains
from headrace.model.records import RECORDS_TAG, RESERVED_PREFIX, reserved_tags
from headrace.model.retention_text import parse_retention

Retention = RetentionPolicy | timedelta | str
"""A policy; how long data are retained; or a text: ``"7 days"``, ``"2h30m"``, ``"10 GiB"``, ``"none"``."""

_RECORDS: Final = "records"
"""A part of a configuration that is a tag."""
_EXAMPLES: Final = "such as '7 days', '2h30m', '10 GiB' or 'none'"


def configuration_of(
    given: StreamConfiguration | None,
    *,
    segments: int | None,
    tags: Iterable[str] | None,
    retention: Retention | None,
    scaling: ScalingPolicy | None,
    records: bool | None = None,
    present: StreamConfiguration | None = None,
) -> StreamConfiguration:
    """Return ``given``, or what the keywords say.

    Args:
        given: a whole configuration; then there are no keywords.
        segments: how many a stream has that does not scale.
        tags: of the stream.
        retention: how much of it is retained.
        scaling: how its segments follow the load; it says itself with how many it begins.
        records: whether its events have a time, a key and headers.
        present: what stays of a stream where no keyword says otherwise.

    Raises:
        InvalidArgumentError: it is said twice, or makes no sense.
    """
    keywords = {
        "segments": segments,
        "tags": tags,
        "retention": retention,
        "scaling": scaling,
        "records": records,
    }
    names = [name for name, value in keywords.items() if value is not None]
    if given is not None:
        _check_type(given, StreamConfiguration, "configuration")
        if names:
            raise InvalidArgumentError(f"{_listed(names)} beside a configuration: give one or the other")
        return given
    if segments is not None and scaling is not None:
        raise InvalidArgumentError("segments and scaling: give segments_min of the scaling policy instead")
    changes: dict[str, Any] = {}
    if segments is not None:
        _check_type(segments, int, "segments")
        changes["scaling"] = ScalingPolicy.fixed(segments)
    if scaling is not None:
        _check_type(scaling, ScalingPolicy, "scaling")
        changes["scaling"] = scaling
    base = present or StreamConfiguration()
    fixed = reserved_tags(base.tags)
    if records is not None:
        _check_type(records, bool, "records")
        fixed |= {RECORDS_TAG} if records else set()
    if tags is not None or records:
        changes["tags"] = fixed | (base.tags if tags is None else _tags(tags, fixed))
    if retention is not None:
        changes["retention"] = retention_of(retention)
    return replace(base, **changes)


def parts_said(
    given: StreamConfiguration | None,
    segments: int | None,
    tags: Iterable[str] | None,
    retention: Retention | None,
    scaling: ScalingPolicy | None,
    records: bool | None = None,
) -> frozenset[str]:
    """Return the parts of a configuration that somebody says, with all of it or with keywords."""
    if given is not None:
        return frozenset(each.name for each in fields(given)) | {_RECORDS}
    keywords = {
        "scaling": segments if scaling is None else scaling,
        "tags": tags,
        "retention": retention,
        _RECORDS: records,
    }
    return frozenset(part for part, value in keywords.items() if value is not None)


def asked_of(
    wanted: StreamConfiguration, said: Collection[str], present: StreamConfiguration
) -> StreamConfiguration:
    """Return what a stream would have to be for somebody who said these parts of ``wanted``."""
    tags = (wanted if "tags" in said else present).tags
    fixed = reserved_tags((wanted if _RECORDS in said else present).tags)
    changes = {part: getattr(wanted, part) for part in said if part != _RECORDS}
    return replace(present, **{**changes, "tags": tags - reserved_tags(tags) | fixed})


def retention_of(wanted: Retention) -> RetentionPolicy:
    """Return the policy that is meant.

    Raises:
        InvalidArgumentError: it is neither a time nor a size, or zero.
    """
    if isinstance(wanted, RetentionPolicy):
        return wanted
    if isinstance(wanted, str):
        return parse_retention(wanted)
    if not isinstance(wanted, timedelta):
        raise InvalidArgumentError(f"{wanted!r} is no retention: a timedelta, or a text {_EXAMPLES}")
    milliseconds = wanted // timedelta(milliseconds=1)
    check_retains(milliseconds, str(wanted), "'none'")
    return RetentionPolicy.by_time(milliseconds)


def _tags(tags: Iterable[str], fixed: frozenset[str]) -> frozenset[str]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidArgumentError(f"tags are several texts: [{tags!r}]")
    found = frozenset(tags)
    if not all(isinstance(tag, str) for tag in found):
        raise InvalidArgumentError("tags are texts")
    reserved = min(reserved_tags(found) - fixed, default=None)
    if reserved is not None:
        raise InvalidArgumentError(
            f"tag {reserved!r} is one of the system's, as all that begin with {RESERVED_PREFIX!r}: "
            "a stream that is created with records=True has it"
        )
    return found


def _check_type(value: object, kind: type, what: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise InvalidArgumentError(f"{what} is a {kind.__name__}, not {value!r}")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
