"""Bounds of the attribute indexes of one container."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.btree.page_format import PAGE_BYTES_MAX
from headrace.limits import KIB, MIB
from headrace.runtime.settings import internal


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributesConfig:
    """How attributes leave memory, and how their index is kept short."""

    page_bytes: int = internal(
        PAGE_BYTES_MAX,
        simulate=(200, 500, PAGE_BYTES_MAX),
        help="Largest page that is written: smaller ones make a higher tree. Any are read.",
    )
    rollover_bytes: int = internal(
        4 * MIB,
        simulate=(1 * KIB, 8 * KIB, 64 * KIB),
        help="Size of the chunks of an index: its dead pages are freed in whole chunks.",
    )
    space_factor: float = internal(
        2.5,
        simulate=(1.5, 4.0),
        help="An index occupies at most so many times its live pages, as far as moving 64 pages an update "
        "allows.",
    )
    update_keys_max: int = internal(
        2048,
        simulate=(1, 7),
        help="Keys of one write to an index: each may need a page of its own in memory.",
    )
    flush_values: int = internal(
        2048,
        simulate=(1, 5),
        help="Values of one segment that are newer than its index before they are written to it: so many fit "
        "into its row of the catalogue.",
    )
    cached_values: int = internal(
        4096,
        simulate=(1, 8),
        help="Extended attributes of one segment in memory, besides those newer than its index or in use.",
    )
    values_max: int = internal(
        500_000,
        simulate=(20, 200),
        help="Extended attributes of all segments in memory: beyond it each segment has less.",
    )
    unwritten_values_max: int = internal(
        250_000,
        simulate=(400,),
        help="With so many values of a segment newer than its index, changes are refused until it has them.",
    )
    sweep_interval_s: float = internal(
        5.0,
        simulate=(0.2, 2.0),
        help="How often all segments are looked at for the two bounds.",
    )
    retry_s: float = internal(
        5.0,
        simulate=(0.05, 0.5),
        help="Pause before an index that could not be written is written again.",
    )
