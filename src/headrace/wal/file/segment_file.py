"""One file of a log that is being written."""

from __future__ import annotations

from headrace.wal.file.segment_format import DATA_OFFSET, format_name


class SegmentFile:
    """A file of this owner, open for writing.

    The loop owns ``position``, ``first_sequence`` and ``zeroed_until``; threads are given offsets.
    """

    __slots__ = (
        "epoch",
        "fd",
        "first_sequence",
        "is_recycled",
        "mark_number",
        "name",
        "number",
        "position",
        "zeroed_until",
    )

    def __init__(self, number: int, container_epoch: int, fd: int, zeroed_until: int) -> None:
        self.number = number
        self.epoch = container_epoch
        self.name = format_name(number, container_epoch)
        self.fd = fd
        self.first_sequence = 0
        self.position = DATA_OFFSET
        self.zeroed_until = zeroed_until
        self.is_recycled = zeroed_until > DATA_OFFSET
        """Whether it was made of a truncated one: what it has not overwritten it still holds."""
        self.mark_number = 0
