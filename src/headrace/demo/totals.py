"""The expected totals: computed with pandas from the files; every difference is named."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.client.blocking import BlockingClient
from headrace.demo.flights import LATE_MINUTES, Flights
from headrace.demo.ingest import FLIGHTS, SCOPE
from headrace.demo.pipeline import KEYS, SUMS

if TYPE_CHECKING:  # an optional extra, imported where totals are made
    import pandas as pd


def expected_totals(flights: Flights) -> pd.DataFrame:
    """Compute what the pipeline has to find."""
    joined = flights.table.merge(flights.weather, on=["origin", "time_hour"], how="left")
    late = joined["dep_delay"] >= LATE_MINUTES
    rain, wind, fog = (joined[name].eq(other=True) for name in ("rain", "wind", "fog"))
    columns: dict[str, Any] = {
        "flights": 1,
        "cancelled": joined["dep_delay"].isna(),
        "late": late,
        "delay": joined["dep_delay"].fillna(0),
        "rain": rain,
        "rain_late": rain & late,
        "wind": wind,
        "fog": fog,
    }
    table = joined[list(KEYS)].assign(**columns)
    totals = table.groupby(list(KEYS), as_index=False)[list(SUMS)].sum()
    return totals.astype(dict.fromkeys(SUMS, "int64")).sort_values(list(KEYS), ignore_index=True)


def differences(expected: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """Return one line per group and column in which two tables of totals differ."""
    both = expected.merge(found, on=list(KEYS), how="outer", suffixes=("_expected", "_found"))
    lines: list[str] = []
    for name in SUMS:
        wrong = both[both[f"{name}_expected"].ne(both[f"{name}_found"])]
        for row in wrong.to_dict("records"):
            group = "/".join(str(row[key]) for key in KEYS)
            lines.append(f"{group}: {name} is {row[f'{name}_found']}, not {row[f'{name}_expected']}")
    return lines


@dataclass(frozen=True, slots=True)
class OrderCheck:
    """What reading the whole stream back has shown."""

    events: int
    out_of_order: int
    """Carriers whose flights were not read in the order in which they were written."""


def check_order(client: BlockingClient, flights: Flights) -> OrderCheck:
    """Read everything back and compare each carrier's sequence of flights with the one that was written."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow import json

    pieces = []
    with client.event_reader(SCOPE, FLIGHTS, end="tail") as reader:
        for batch in reader.batches():
            lines = b"\n".join(batch)
            options = json.ReadOptions(block_size=max(1 << 20, len(lines) + 1))
            pieces.append(json.read_json(io.BytesIO(lines), options).select(["carrier", "number"]))
    table = pa.concat_tables(pieces)
    back = pd.DataFrame(
        {name: table[name].to_pylist() for name in table.column_names}, columns=["carrier", "number"]
    )
    written = flights.table.groupby("carrier")["number"].agg(list)
    read = back.groupby("carrier")["number"].agg(list)
    wrong = sum(read.get(carrier) != numbers for carrier, numbers in written.items())
    return OrderCheck(len(back), wrong)
