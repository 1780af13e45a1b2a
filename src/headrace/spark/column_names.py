"""Which column of a frame is meant by a name: resolved as Spark resolves the names in a query.

``spark.sql.caseSensitive`` decides whether spelling matters (by default it does not). Only tasks know the
setting: the processes that plan for Spark accept what either setting allows, and tasks check again before
they touch a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark import TaskContext

from headrace.errors import InvalidArgumentError

_SETTING = "spark.sql.caseSensitive"
_ZONE = "spark.sql.session.timeZone"


def is_case_sensitive() -> bool:
    """Tell whether spelling matters in the session that the current task belongs to."""
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(_SETTING)
    return value is not None and value.lower() == "true"


def session_zone() -> tzinfo | None:
    """Return the time zone of the session that the current task belongs to; None is that of this host."""
    context = TaskContext.get()
    name = None if context is None else context.getLocalProperty(_ZONE)
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        return None  # an offset: +02:00


def names_that_may_mean(wanted: str, names: Sequence[str], fits: Sequence[bool]) -> list[str]:
    """Return the names with those blanked that cannot mean ``wanted``: spelled differently, and of a column
    whose type does not fit. The exact name stays, so that its type can be refused.
    """
    return [name if fit or name == wanted else "" for name, fit in zip(names, fits, strict=True)]


def find_column(names: Sequence[str], wanted: str, *, case_sensitive: bool) -> int | None:
    """Return the place of the column that ``wanted``, which is in lower case, means; None without one.

    Raises:
        InvalidArgumentError: several columns have that name, or spelling matters and the only column with it
            is spelled differently, so that what is meant to be used would be ignored.
    """
    places = [place for place, name in enumerate(names) if name.lower() == wanted]
    exact = [place for place in places if names[place] == wanted]
    if case_sensitive and places and not exact:
        raise InvalidArgumentError(
            f"column {names[places[0]]} is not {wanted}, because {_SETTING} is true: "
            f"rename it to {wanted}, or drop it"
        )
    found = exact if case_sensitive else places
    if len(found) > 1:
        spellings = ", ".join(names[place] for place in found)
        raise InvalidArgumentError(f"column {wanted} is ambiguous: the frame has {spellings}")
    return found[0] if found else None


def plan_column(names: Sequence[str], wanted: str) -> int | None:
    """Return the column that ``wanted`` means where the setting is not known: the best match of either
    setting.

    Raises:
        InvalidArgumentError: neither setting gives a column, and one has the same letters.
    """
    if wanted in names:
        return names.index(wanted)
    for place, name in enumerate(names):
        if name.lower() == wanted:
            return place
    letters = wanted.replace("_", "")
    for name in names:
        if name.lower().translate(_NO_SEPARATORS) == letters:
            raise InvalidArgumentError(f"column {name} would be ignored: rename it to {wanted}, or drop it")
    return None


_NO_SEPARATORS = {ord(each): None for each in "_- ."}
