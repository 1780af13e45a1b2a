"""Says that a stream is not acknowledged for long, and that it is again: a server whose disk is full says
nothing, and its clients would wait in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

from headrace.runtime import logs

_log = logs.logger(__name__)

SILENT_S: Final = 10.0
_EVERY_S: Final = 1.0


class WatchedOutput(Protocol):
    """What was sent to a segment, as far as it is watched."""

    @property
    def stream_name(self) -> str:
        """With its scope."""

    @property
    def has_work(self) -> bool:
        """Something was added and is not durable."""

    @property
    def is_ended(self) -> bool:
        """Nothing of it will be acknowledged any more."""

    @property
    def acknowledged_number(self) -> int:
        """Grows with each acknowledgement."""

    @property
    def peer(self) -> str:
        """Who is to acknowledge; empty without a connection."""

    @property
    def trouble(self) -> str:
        """Why there is no connection; empty while there is one, or none was needed yet."""


class AckWatch:
    """All outputs of a client that have something unacknowledged, from :meth:`watch` on. Used on one loop.

    They are looked at once a second, so that acknowledgements cost nothing.
    """

    def __init__(self) -> None:
        self._seen: dict[WatchedOutput, tuple[int, float]] = {}
        """The last number that was acknowledged, and since when that is so."""
        self._silent: dict[str, float] = {}
        """Streams of which it was said, and since when."""
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, output: WatchedOutput) -> None:
        """Look at an output until everything of it is acknowledged. Cheap if it is watched already."""
        if output not in self._seen:
            loop = asyncio.get_running_loop()
            self._seen[output] = (output.acknowledged_number, loop.time())
            if self._timer is None:
                self._timer = loop.call_later(_EVERY_S, self._look, loop)

    @property
    def is_silent(self) -> bool:
        """It was said of a stream that it is not acknowledged."""
        return bool(self._silent)

    def look(self) -> None:
        """Say what there is to say now: an acknowledgement may be all that its process waits for."""
        for line in self._lines(asyncio.get_running_loop().time()):
            _log.warning("%s", line)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self.look()
        if self._seen:
            self._timer = loop.call_later(_EVERY_S, self._look, loop)

    def _lines(self, now: float) -> Iterator[str]:
        """Yield what there is to say at this time."""
        silent: dict[str, list[WatchedOutput]] = {}
        since: dict[str, float] = {}
        going_on: dict[str, str] = {}
        for output, (number, at) in list(self._seen.items()):
            stream = output.stream_name
            if output.is_ended:
                del self._seen[output]
            elif not output.has_work:
                del self._seen[output]
                going_on[stream] = output.peer
            elif output.acknowledged_number != number:
                self._seen[output] = (output.acknowledged_number, now)
                going_on[stream] = output.peer
            elif now - at >= SILENT_S:
                silent.setdefault(stream, []).append(output)
                since[stream] = min(since.get(stream, at), at)
        for stream, outputs in silent.items():
            if stream not in self._silent:
                self._silent[stream] = since[stream]
                yield _silence(stream, outputs, now - since[stream])
        for stream in [each for each in self._silent if each not in silent]:
            seconds = now - self._silent.pop(stream)
            if stream in going_on:
                peer = f" from {going_on[stream]}" if going_on[stream] else ""
                yield f"acknowledgements{peer} for stream {stream} go on after {seconds:.0f} s"


def _silence(stream: str, outputs: list[WatchedOutput], seconds: float) -> str:
    segments = "1 segment" if len(outputs) == 1 else f"{len(outputs)} segments"
    peers = sorted({output.peer for output in outputs if output.peer})
    why = "" if peers else next((f": {output.trouble}" for output in outputs if output.trouble), "")
    whose = f" from {', '.join(peers)}" if peers else ""
    return (
        f"no acknowledgement{whose} for {seconds:.0f} s for {segments} of stream {stream}{why}; "
        "events are kept and sent again"
    )
