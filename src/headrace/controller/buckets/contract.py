"""What is done for the streams of a bucket by the controller that owns it."""

from __future__ import annotations

from typing import Protocol


class BucketWork(Protocol):
    """One kind of background work.

    Two controllers may believe that they own a bucket for a while: whatever a work decides, it writes under
    the version of a row that it was computed from.
    """

    @property
    def name(self) -> str:
        """A noun for log lines and statistics, such as ``retention``."""

    async def run(self, bucket: int) -> None:
        """Work on the streams of ``bucket`` until cancelled.

        Called once the bucket is claimed, cancelled when it is released or lost, and called again after a
        failure, with growing pauses. A run that returns has nothing more to do while the bucket is owned.
        """
