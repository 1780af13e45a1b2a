"""The segments of a stream over time as a picture: the key space upwards, the time to the right. Pure.

A segment is a rectangle, warmer the more bytes a second came to each part of its keys: a hot key is seen at
once, also in a segment that was split around it. What is smaller than can be seen is drawn together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.console.quantities import bytes_text, clock_text, period_text, rate_text, time_text
from headrace.console.segment_spans import SegmentSpan
from headrace.model.segment_id import segment_id_text

RECTANGLES_MAX: Final = 2000
"""Of single segments; there are no more cells of the grid than ``_COLUMNS * _ROWS`` beside them."""

_WIDTH: Final = 1000
_HEIGHT: Final = 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 8, 8, 26
_INNER_WIDTH: Final = _WIDTH - _LEFT - _RIGHT
_INNER_HEIGHT: Final = _HEIGHT - _TOP - _BOTTOM
_SEEN: Final = 1.0
"""Of the picture's units: a side that is shorter is not seen."""

_COLUMNS, _ROWS = 96, 28
_TICKS: Final = 6
_LEVELS: Final = 5
_LEVEL_FACTOR: Final = 3.0
_SHORTEST_MS: Final = 1000
"""A rate over less is none."""


@dataclass(frozen=True, slots=True)
class _Box:
    span: SegmentSpan
    x: float
    y: float
    width: float
    height: float


def draw_segments(spans: Sequence[SegmentSpan], now_ms: int, events_at: str = "") -> str:
    """Return the picture as SVG. Segments are links to ``events_at`` plus when they began, if it is given and
    they are few.
    """
    begin_ms = min((each.begin_ms for each in spans), default=now_ms)
    length_ms = max(_SHORTEST_MS, now_ms - begin_ms)
    boxes = [_place(each, begin_ms, length_ms, now_ms) for each in spans]
    boxes.sort(key=lambda box: -box.width * box.height)
    seen = [box for box in boxes if box.width >= _SEEN and box.height >= _SEEN][:RECTANGLES_MAX]
    single = {box.span.segment_id for box in seen}
    small = [box for box in boxes if box.span.segment_id not in single]
    densest = max((_density(box.span, now_ms) for box in seen), default=0.0)
    seen.sort(key=lambda box: (box.span.begin_ms, box.span.low))
    links = events_at if len(seen) <= 100 else ""
    label = f"{len(spans)} segments over time, by their parts of the key space"
    parts = [f'<svg class="segments" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" aria-label="{label}">']
    parts += _draw_small(small)
    for box in seen:
        parts.append(_draw_box(box, now_ms, densest, links))
    parts += _axes(begin_ms, length_ms)
    parts.append("</svg>")
    return "\n".join(parts)


def _place(span: SegmentSpan, begin_ms: int, length_ms: int, now_ms: int) -> _Box:
    end_ms = now_ms if span.end_ms is None else span.end_ms
    x = _LEFT + _INNER_WIDTH * (span.begin_ms - begin_ms) / length_ms
    width = _INNER_WIDTH * max(0, end_ms - span.begin_ms) / length_ms
    if span.end_ms is None:  # a segment that has just begun is seen all the same
        width = max(width, 2 * _SEEN)
        x = min(x, _LEFT + _INNER_WIDTH - width)
    y = _TOP + _INNER_HEIGHT * (1 - span.high)
    return _Box(span, x, y, width, _INNER_HEIGHT * (span.high - span.low))


def _rate(span: SegmentSpan, now_ms: int) -> float:
    """Return the bytes a second that came, on the average of its time."""
    end_ms = now_ms if span.end_ms is None else span.end_ms
    return 1000 * (span.written or 0) / max(_SHORTEST_MS, end_ms - span.begin_ms)


def _density(span: SegmentSpan, now_ms: int) -> float:
    return _rate(span, now_ms) / (span.high - span.low)


def _level(density: float, densest: float) -> int:
    """Return 0 for nothing, then 1 to ``_LEVELS`` for the warmest, each three times the one before."""
    if density <= 0:
        return 0
    level, bound = _LEVELS, densest / _LEVEL_FACTOR
    while level > 1 and density < bound:
        level, bound = level - 1, bound / _LEVEL_FACTOR
    return level


def _draw_box(box: _Box, now_ms: int, densest: float, links: str) -> str:
    span = box.span
    level = _level(_density(span, now_ms), densest)
    name = segment_id_text(span.segment_id)
    begin, end = time_text(span.begin_ms), "now" if span.end_ms is None else time_text(span.end_ms)
    lasted = period_text((now_ms if span.end_ms is None else span.end_ms) - span.begin_ms)
    title = f"segment {name}: keys {span.low:.4g} to {span.high:.4g}, {begin} to {end} ({lasted})"
    if span.written is not None:
        title += f", {bytes_text(span.written)}, {rate_text(_rate(span, now_ms))} on average"
    drawn = (
        f'<rect class="segment heat-{level}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}"><title>{title}</title></rect>'
    )
    if box.width > 46 and box.height > 15:
        drawn += f'<text class="name" x="{box.x + 5:.1f}" y="{box.y + 13:.1f}">{name}</text>'
    return f'<a href="{links}{span.begin_ms}">{drawn}</a>' if links else drawn


def _draw_small(boxes: Iterable[_Box]) -> Iterable[str]:
    """Draw what is too small to be seen by itself as cells of a grid, those side by side as one."""
    counts: dict[tuple[int, int], int] = {}
    cell_width, cell_height = _INNER_WIDTH / _COLUMNS, _INNER_HEIGHT / _ROWS
    for box in boxes:
        column = min(_COLUMNS - 1, int((box.x + box.width / 2 - _LEFT) / cell_width))
        first = min(_ROWS - 1, int((box.y - _TOP) / cell_height))
        last = min(_ROWS - 1, int((box.y + box.height - _TOP) / cell_height - 1e-9))
        for row in range(first, max(first, last) + 1):
            counts[row, column] = counts.get((row, column), 0) + 1
    for (row, column), count in sorted(counts.items()):
        x, y = _LEFT + column * cell_width, _TOP + row * cell_height
        plural = "s" if count > 1 else ""
        yield (
            f'<rect class="many" x="{x:.1f}" y="{y:.1f}" width="{cell_width:.1f}" height="{cell_height:.1f}">'
            f"<title>{count} segment{plural} too small to be seen</title></rect>"
        )


def _axes(begin_ms: int, length_ms: int) -> Iterable[str]:
    for key in (0.0, 0.5, 1.0):
        y = _TOP + _INNER_HEIGHT * (1 - key) + 4
        yield f'<text class="axis" x="{_LEFT - 6}" y="{y:.1f}" text-anchor="end">{key:g}</text>'
    for tick in range(_TICKS + 1):
        x = _LEFT + _INNER_WIDTH * tick / _TICKS
        anchor = "start" if tick == 0 else "end" if tick == _TICKS else "middle"
        text = clock_text(begin_ms + length_ms * tick // _TICKS, length_ms)
        yield f'<text class="axis" x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{text}</text>'
