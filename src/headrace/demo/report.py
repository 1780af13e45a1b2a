"""What a person sees: steps with their times, a table of the result, a picture of it."""

from __future__ import annotations

import time  # noqa: TID251 - a demo measures real durations
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # an optional extra, imported once there is something to report
    import pandas as pd

ORIGINS: Final = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_HOURS: Final = range(5, 24)
_FLIGHTS_MIN: Final = 20
"""Groups with fewer flights say nothing about an hour."""


@dataclass(slots=True)
class Step:
    """One step of the demo: how long it took, and what to say about it."""

    name: str
    seconds: float = 0.0
    events: int = 0
    remark: str = ""


class Report:
    """Collects steps while they happen and prints them."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.steps: list[Step] = []

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step and print one line when it is done."""
        step = Step(name)
        started = time.perf_counter()
        with self.console.status(f"{name} ..."):
            yield step
        self._finish(step, started)

    @contextmanager
    def progress(self, name: str, total: int) -> Iterator[tuple[Step, Any]]:
        """Time a step that shows how far it is; yields the step and what to call with a number of events."""
        step = Step(name)
        bar = Progress(
            TextColumn("  {task.description}"),
            BarColumn(40),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            console=self.console,
            transient=True,
        )
        started = time.perf_counter()
        with bar:
            task = bar.add_task(name, total=total)
            yield step, lambda count: bar.advance(task, count)
        self._finish(step, started)

    def _finish(self, step: Step, started: float) -> None:
        step.seconds = time.perf_counter() - started
        self.steps.append(step)
        line = Text.assemble(("  ✓ ", "green"), f"{step.name:<34}", (f"{step.seconds:6.1f} s  ", "cyan"))
        if step.events:
            rate = step.events / max(step.seconds, 1e-9)
            line.append(f"{step.events:>9,} events  {_round(rate):>9,}/s  ", "bold")
        line.append(step.remark, "dim")
        self.console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def problem(self, text: str) -> None:
        self.console.print(Text.assemble(("  ✗ ", "bold red"), text))


def _round(rate: float) -> int:
    """Three digits are all a measurement of seconds carries."""
    digits = max(0, len(str(int(rate))) - 3)
    return int(round(rate, -digits))


def carriers_table(totals: pd.DataFrame, airlines: dict[str, str]) -> Table:
    """Return the result by carrier, the most punctual first, with the delay over the day as a small curve."""
    table = Table(
        title="Departures from New York City in 2013: who leaves on time?",
        title_style="bold",
        title_justify="left",
        header_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("Airline", no_wrap=True)
    for name in ("Flights", "Cancelled", "Late", "Delay"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("from 5:00 to 23:00", no_wrap=True, min_width=len(_HOURS))
    table.add_column("Rain", justify="right", no_wrap=True)
    rows = []
    for carrier, group in totals.groupby("carrier"):
        sums = group.sum(numeric_only=True)
        rows.append((sums["late"] / max(sums["flights"] - sums["cancelled"], 1), str(carrier), group, sums))
    for share, carrier, group, sums in sorted(rows, key=lambda row: row[0]):
        departed = max(sums["flights"] - sums["cancelled"], 1)
        table.add_row(
            _short(airlines.get(carrier, carrier)),
            f"{sums['flights']:,}",
            f"{sums['cancelled'] / sums['flights']:.1%}",
            Text(f"{share:.0%}", _colour(share)),
            f"{sums['delay'] / departed:.0f} min",
            _curve(group),
            f"{sums['rain_late'] / sums['rain']:.0%}" if sums["rain"] >= _FLIGHTS_MIN else "",
        )
    return table


def origins_line(totals: pd.DataFrame) -> str:
    """Return one line that compares the three airports, dry and in rain."""
    parts = []
    for origin, group in totals.groupby("origin"):
        sums = group.sum(numeric_only=True)
        dry = (sums["late"] - sums["rain_late"]) / (sums["flights"] - sums["rain"])
        wet = sums["rain_late"] / sums["rain"]
        name = ORIGINS.get(str(origin), str(origin))
        parts.append(f"[bold]{name}[/]: {dry:.0%} of departures late when dry, {wet:.0%} in rain")
    return "  " + "\n  ".join(parts)


def _colour(share: float) -> str:
    return "green" if share < 0.18 else "yellow" if share < 0.24 else "red"


def _curve(group: pd.DataFrame) -> Text:
    """Return one block per hour, its height the mean delay; all airlines share one scale."""
    by_hour: Any = group.groupby("hour")[["delay", "flights", "cancelled"]].sum()
    curve = Text()
    for hour in _HOURS:
        row = by_hour.loc[hour] if hour in by_hour.index else None
        if row is None or row["flights"] < _FLIGHTS_MIN:
            curve.append(" ")
            continue
        mean = row["delay"] / max(row["flights"] - row["cancelled"], 1)
        level = min(len(_BLOCKS) - 1, max(0, int(float(mean) / 40 * len(_BLOCKS))))
        curve.append(_BLOCKS[level], "green" if mean < 8 else "yellow" if mean < 20 else "red")
    return curve


def save_plot(totals: pd.DataFrame, airlines: dict[str, str], path: Path, caption: str) -> None:
    """Draw the mean delay over the day: by airport as lines, by airline as a map."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.8), width_ratios=[1, 1.25])
        _draw_lines(left, totals)
        _draw_map(figure, right, totals, airlines)
        figure.suptitle(
            "Delays pile up over the day: departures from New York City, 2013",
            x=0.01,
            ha="left",
            fontsize=14,
            fontweight="bold",
        )
        figure.text(0.01, 0.01, caption, fontsize=8, color="#666666")
        figure.tight_layout(rect=(0, 0.03, 1, 0.97))
        figure.savefig(path, dpi=140)
        plt.close(figure)


def _means(totals: pd.DataFrame, by: Sequence[str]) -> pd.Series[float]:
    sums = totals.groupby(list(by))[["delay", "flights", "cancelled"]].sum()
    sums = sums[sums["flights"] >= _FLIGHTS_MIN]
    return sums["delay"] / (sums["flights"] - sums["cancelled"])


def _draw_lines(axes: Any, totals: pd.DataFrame) -> None:
    colours = {"EWR": "#c2410c", "JFK": "#1d4ed8", "LGA": "#15803d"}
    means: Any = _means(totals, ["origin", "hour"])
    ends = []
    for origin, name in ORIGINS.items():
        line = means.loc[origin]
        axes.plot(line.index, line.values, color=colours[origin], linewidth=2.2)
        ends.append((float(line.iloc[-1]), name, colours[origin], line.index[-1]))
    lowest = -10.0
    for height, name, colour, hour in sorted(ends):
        lowest = max(height, lowest + 1.6)  # names must not cover each other
        axes.text(hour + 0.25, lowest, name, color=colour, va="center", fontweight="bold")
    axes.set_xlim(5, 26.5)
    axes.set_ylim(bottom=min(0.0, float(means.min())) - 0.5)
    axes.set_xticks(range(6, 24, 3), [f"{hour}:00" for hour in range(6, 24, 3)])
    axes.set_title("Mean departure delay by airport, minutes", loc="left", fontsize=11)
    axes.set_xlabel("scheduled hour of departure")
    axes.grid(axis="y", color="#e5e5e5")
    axes.set_axisbelow(True)


def _draw_map(figure: Any, axes: Any, totals: pd.DataFrame, airlines: dict[str, str]) -> None:
    import numpy as np

    means = _means(totals, ["carrier", "hour"]).unstack("hour").reindex(columns=list(_HOURS))
    busiest = totals.groupby("carrier")["flights"].sum().sort_values(ascending=False)
    means = means.reindex([carrier for carrier in busiest.index if carrier in means.index])
    image = axes.imshow(
        np.ma.masked_invalid(means.to_numpy(dtype=float)), cmap="YlOrRd", vmin=0, vmax=40, aspect="auto"
    )
    axes.set_yticks(range(len(means)), [_short(airlines.get(each, each)) for each in means.index])
    axes.set_xticks(range(1, len(_HOURS), 3), [f"{_HOURS[at]}:00" for at in range(1, len(_HOURS), 3)])
    axes.set_title("... and by airline, the busiest on top", loc="left", fontsize=11)
    axes.set_xlabel("scheduled hour of departure")
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xticks(np.arange(-0.5, len(_HOURS)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(means)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="both", length=0)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, extend="max")
    bar.set_label("minutes")
    bar.outline.set_visible(False)


def _short(name: str) -> str:
    """Drop what every airline's name ends with."""
    for ending in (" Inc.", " Co.", " Corporation", " Airlines", " Air Lines", " Airways", " Air"):
        shorter = name.removesuffix(ending)
        name = shorter if len(shorter) > 3 else name
    return name
