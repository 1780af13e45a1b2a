"""The layouts that one owner keeps in memory: those used last; others are built from their rows again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from headrace.errors import FencedOutError, InvalidArgumentError, NoSuchSegmentError
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_layout import SegmentLayout, load_layout


class KeptLayouts:
    """What the segments of one container look like, to the owner of ``epoch``. Used on its loop.

    ``get_row`` returns a row by its key, or None.
    """

    __slots__ = ("_config", "_epoch", "_get_row", "_kept")

    def __init__(
        self, get_row: Callable[[str], bytes | None], epoch: int, config: SegmentStorageConfig
    ) -> None:
        self._get_row = get_row
        self._epoch = epoch
        self._config = config
        self._kept: OrderedDict[str, SegmentLayout] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, segment: str) -> SegmentLayout | None:
        """Return the layout of a segment; None if storage does not know it. Raises: DataCorruptionError."""
        layout = self._kept.get(segment)
        if layout is not None:
            self._kept.move_to_end(segment)
            return layout
        layout = load_layout(segment, self._get_row)
        if layout is not None:
            self.keep(layout)
        return layout

    def get(self, segment: str) -> SegmentLayout:
        """Return the layout of a segment. Raises: NoSuchSegmentError, DataCorruptionError."""
        layout = self.find(segment)
        if layout is None:
            raise NoSuchSegmentError(segment)
        return layout

    def get_owned(self, segment: str) -> SegmentLayout:
        """Return a layout that is to be changed. Raises: as :meth:`get`, FencedOutError."""
        layout = self.get(segment)
        self.check_owner(layout)
        return layout

    def check_owner(self, layout: SegmentLayout) -> None:
        """Refuse what a newer owner has taken. Raises: FencedOutError."""
        if layout.owner_epoch > self._epoch:
            raise FencedOutError(
                f"segment {layout.segment!r} belongs to epoch {layout.owner_epoch}; this is {self._epoch}"
            )

    def new(self, segment: str, rollover_bytes: int) -> SegmentLayout:
        """Return the layout of a segment without a byte; nothing is kept. Raises: InvalidArgumentError."""
        if rollover_bytes < 0:
            raise InvalidArgumentError(f"rollover size {rollover_bytes} is negative")
        size = min(rollover_bytes or self._config.rollover_bytes, self._config.rollover_bytes)
        return SegmentLayout(segment, self._epoch, max(size, self._config.block_bytes))

    def keep(self, layout: SegmentLayout) -> None:
        """This is what the segment looks like now; the one used longest ago may leave for it."""
        self._kept[layout.segment] = layout
        self._kept.move_to_end(layout.segment)
        if len(self._kept) > self._config.layouts_max:
            self._kept.popitem(last=False)

    def forget(self, segment: str) -> None:
        """Only its rows tell what the segment looks like. Fine if it was not kept."""
        self._kept.pop(segment, None)
