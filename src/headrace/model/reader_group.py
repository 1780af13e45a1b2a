"""What a reader group is made with: a plain value.

Source: protocol, "Reader groups and subscribers" and "ReaderGroupConfig".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.stream_cut import StreamCut

NO_GROUP_ID: Final = bytes(16)


class Consumption(IntEnum):
    """Whether retention by consumption waits for a group, and when it goes on."""

    NOT_HELD = 0
    HELD_UNTIL_TOLD = 1
    HELD_UNTIL_CHECKPOINT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderGroupConfig:
    """Agreed by all readers of a group. Times in ms; a checkpoint interval of -1: none is made by itself.

    ``starts`` has a cut by name ``scope/stream`` of each stream that is read, ``ends`` those where reading
    ends. An unbounded cut is the head as a start. Equal are those that read the same in the same way,
    whatever their ids and generations.
    """

    starts: Mapping[str, StreamCut]
    ends: Mapping[str, StreamCut] = field(default_factory=dict)
    checkpoint_interval_ms: int = 30_000
    refresh_ms: int = 3_000
    checkpoints_max: int = 3
    consumption: Consumption = Consumption.NOT_HELD
    generation: int = field(default=-1, compare=False)
    group_id: bytes = field(default=NO_GROUP_ID, compare=False)

    def __post_init__(self) -> None:
        if not self.starts:
            raise InvalidArgumentError("a reader group reads one stream at least")
        for cuts in (self.starts, self.ends):
            for name, cut in cuts.items():
                if not cut.is_unbounded and cut.scoped_stream != name:
                    raise InvalidArgumentError(f"a cut of {cut.scoped_stream} is none of {name}")
        if not 1 <= self.checkpoints_max < 1 << 31:
            raise InvalidArgumentError("one checkpoint at a time must be allowed at least")
        if not -1 <= self.checkpoint_interval_ms <= INT64_MAX or not 0 <= self.refresh_ms <= INT64_MAX:
            raise InvalidArgumentError("intervals of a reader group are whole numbers of ms")
        if len(self.group_id) != len(NO_GROUP_ID):
            raise InvalidArgumentError(f"the id of a reader group has {len(NO_GROUP_ID)} bytes")
