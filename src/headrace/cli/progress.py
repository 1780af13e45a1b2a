"""How far a long command is: a bar with its rate on a terminal, once it takes longer than a second.

Nothing in pipes, for what is done sooner, or if it is to be ``quiet``, as with ``--json``. With *rich* it is
a bar, else a line that is replaced; rich is imported only when there is something to show.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic  # noqa: TID251 - no loop runs here that has a clock
from types import TracebackType
from typing import Any, Final, Self

_Show = Callable[[int, str], None]

_SILENT_S: Final = 1.0
_EVERY_S: Final = 0.2


class Progress:
    """Progress of one command: use as a context manager, call :meth:`show` as often as you like.

    ``what`` is what is done, as "writing"; ``unit`` is "events" or the like, or "B" for bytes; ``total`` is
    how many there are in all, if that is known.
    """

    def __init__(self, what: str, unit: str, total: int | None = None, *, quiet: bool = False) -> None:
        self._what = what
        self._unit = unit
        self._total = total
        self._is_wanted = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._began = self._shown = monotonic()
        self._show: _Show | None = None
        self._stop: Callable[[], object] = lambda: None

    def show(self, done: int, note: str = "") -> None:
        """Say that so many units are done in all; ``note`` is shown beside it."""
        if not self._is_wanted:
            return
        now = monotonic()
        if now - self._shown < _EVERY_S or now - self._began < _SILENT_S:
            return
        self._shown = now
        if self._show is None:
            self._show, self._stop = self._bar() or self._line()
        self._show(done, note)

    def _bar(self) -> tuple[_Show, Callable[[], object]] | None:
        try:
            from rich import progress as rich
            from rich.console import Console
        except ImportError:
            return None
        if self._unit == "B":
            counts: list[Any] = [rich.DownloadColumn(), rich.TransferSpeedColumn()]
        else:
            counts = [rich.TextColumn("{task.completed:,.0f} {task.fields[unit]}"), _rate_column(rich)]
        bar = rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            *counts,
            *([rich.TimeRemainingColumn()] if self._total else [rich.TimeElapsedColumn()]),
            rich.TextColumn("{task.fields[note]}"),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        task = bar.add_task(self._what, total=self._total, unit=self._unit, note="")
        bar.start()
        return lambda done, note: bar.update(task, completed=done, note=note), bar.stop

    def _line(self) -> tuple[_Show, Callable[[], object]]:
        def show(done: int, note: str) -> None:
            rate = done / (monotonic() - self._began)
            of = f" of {_amount(self._total, self._unit)}" if self._total else ""
            parts = [f"{_amount(done, self._unit)}{of}", f"{_amount(rate, self._unit)}/s", note]
            sys.stderr.write(f"\r{self._what}: {', '.join(filter(None, parts))}\x1b[K")
            sys.stderr.flush()

        def remove() -> None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

        return show, remove

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


def _amount(count: float, unit: str) -> str:
    return f"{count / 1e6:,.1f} MB" if unit == "B" else f"{count:,.0f} {unit}"


def _rate_column(rich: Any) -> Any:
    """Return a column with units per second."""

    class Rate(rich.ProgressColumn):  # type: ignore[misc]  # rich is imported when it is needed
        def render(self, task: Any) -> Any:
            from rich.text import Text

            return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="cyan")

    return Rate()
