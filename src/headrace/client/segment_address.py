"""A segment, or a transaction's shadow of it, with all that its owner is found and asked by. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.names import TABLE_SUFFIX, segment_name, transaction_segment_name


@dataclass(frozen=True, slots=True)
class SegmentAddress:
    """A segment with everything that is needed to find its owner. ``txn_id`` names a transaction's shadow
    of it.
    """

    scope: str
    stream: str
    segment_id: int
    txn_id: int | None = None

    @property
    def name(self) -> str:
        """The qualified name on the wire."""
        primary = segment_name(self.scope, self.stream, self.segment_id)
        return primary if self.txn_id is None else transaction_segment_name(primary, self.txn_id)

    @property
    def token_stream(self) -> str:
        """The stream that tokens are asked for. Those for a partition have the bare name of its table."""
        return self.stream.removesuffix(TABLE_SUFFIX)
