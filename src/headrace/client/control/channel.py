"""A channel to one controller, whose calls are awaited on a loop and made by the threads of gRPC.

gRPC has channels for asyncio as well. Only these are closed from any thread, at once, and leave nothing
behind: a process that forks needs that, whichever of its threads does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from headrace.client.control.call_watch import CallWatch
from headrace.client.control.fork_gate import GATE
from headrace.rpc.quiet_grpc import grpc

NO_ANSWER = (
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
)
"""Codes that no server has to be there for."""


class ChannelCutError(Exception):
    """A fork of this process closed the channel under the call, which is to be made again on another one."""


class ControlChannel:
    """Used on one loop; a fork closes it on any thread."""

    def __init__(
        self,
        target: str,
        options: Sequence[tuple[str, Any]],
        credentials: Callable[[], grpc.ChannelCredentials] | None,
        watch: CallWatch | None = None,
    ) -> None:
        """``credentials`` None: nothing is encrypted. Raises UnsupportedError, and what they raise."""
        self._watch = watch
        self._stubs: dict[Any, Any] = {}
        self._was_cut = False
        self._channel: grpc.Channel | None = None
        with GATE.lock:
            GATE.check()
            if credentials is None:
                self._channel = grpc.insecure_channel(target, options)
            else:
                self._channel = grpc.secure_channel(target, credentials(), options)
            GATE.on_channel(self)

    @property
    def is_open(self) -> bool:
        return self._channel is not None

    async def call(
        self, service: Any, method: str, request: Any, *, timeout_s: float, metadata: Any
    ) -> tuple[Any, Any]:
        """Return the reply, and the call, which knows the rest.

        Raises:
            ChannelCutError: see there.
            grpc.RpcError: it has ``code``, ``details`` and ``trailing_metadata``.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def on_end(call: Any) -> None:  # on a thread of gRPC
            GATE.calls.discard(call)
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_settle, ended)

        with GATE.lock:
            if self._channel is None:
                raise ChannelCutError
            call = getattr(self._stub(service), method).future(request, timeout=timeout_s, metadata=metadata)
            GATE.calls.add(call)
        call.add_done_callback(on_end)
        watch = self._watch
        if watch is not None:
            watch.begin()
        try:
            await ended
        except BaseException:
            call.cancel()
            raise
        finally:
            if watch is not None:
                watch.end(answered=ended.done() and call.code() not in NO_ANSWER)
        if call.code() is grpc.StatusCode.OK:
            return call.result(), call
        if self._was_cut and call.code() is grpc.StatusCode.CANCELLED:
            raise ChannelCutError
        raise call

    def _stub(self, service: Any) -> Any:
        """A stub makes an object for every call of its service."""
        stub = self._stubs.get(service)
        if stub is None:
            stub = self._stubs[service] = service(self._channel)
        return stub

    def cut(self) -> None:
        """Close it for a fork, on any thread, inside the gate."""
        self._was_cut = True
        self.close()

    def close(self) -> None:
        """Calls in progress fail. Idempotent."""
        if self._watch is not None:
            self._watch.close()
        with GATE.lock:
            channel, self._channel = self._channel, None
            self._stubs.clear()
            GATE.channels.discard(self)
            if channel is not None:
                channel.close()


def _settle(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
