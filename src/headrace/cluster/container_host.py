"""What a member of the cluster asks of what runs containers in a store, and what it hears from it."""

from __future__ import annotations

from typing import Protocol


class ContainerHost(Protocol):
    """Starts and ends containers, one by one. Used on one event loop."""

    async def give(self, container_id: int) -> int:
        """Open the log, which fences its former owner, and recover; return the container epoch.

        It answers nothing until the gate serves it. A caller that is cancelled takes it.

        Raises:
            FencedOutError: another process has opened the log since.
            ClosedError: it was taken before it ran.
            Exception: it did not start; it is not here any more, and may be given again.
        """

    async def take(self, container_id: int) -> None:
        """End a container in order, wherever it is in its life; return when its log is free, or is given up.

        Idempotent.
        """

    async def confirm(self, container_id: int) -> None:
        """Make sure that the log still takes writes of this process.

        Raises:
            FencedOutError: another process has opened it since.
            Exception: it is not known.
        """


class ContainerEvents(Protocol):
    """What happens to a container that was given, beside the answers to these calls."""

    def on_failed(self, container_id: int) -> None:
        """It has failed after it ran, and the host starts it again."""

    def on_online(self, container_id: int, container_epoch: int) -> None:
        """It runs again, as an owner of this container epoch."""

    def on_fenced(self, container_id: int) -> None:
        """Another process has opened its log: it has ended here, and is not started again."""
