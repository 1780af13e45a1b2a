"""A failure to show one container is reported after the remaining ones were shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from headrace.cli.output import print_json, print_line, printable
from headrace.errors import DataCorruptionError, SnapshotLostError, StorageReadError

_KINDS: Final = (DataCorruptionError, SnapshotLostError, StorageReadError, OSError)
"""What may be wrong with one container and not with the next, the worst first."""


class ContainerFailures:
    """Collects failures by container, and ends the command with the worst of them."""

    def __init__(self) -> None:
        self._failures: list[tuple[int, Exception]] = []

    @contextmanager
    def collected(self, container_id: int, *, json: bool) -> Iterator[dict[str, Any]]:
        """Show one container; if that fails, say so in its place.

        With ``json`` the document that is yielded is printed at the end, as far as it was filled.
        """
        document: dict[str, Any] = {"container": container_id}
        try:
            yield document
        except BrokenPipeError:
            raise  # the reader of the output is gone: no failure of the container
        except _KINDS as error:
            self.add(container_id, error)
            document["problem"] = str(error)
            if not json:
                print_line(f"container {container_id}: {printable(str(error))}\n")
        if json:
            print_json(document)

    def add(self, container_id: int, error: Exception) -> None:
        """Add a failure that was shown already."""
        self._failures.append((container_id, error))

    def raise_worst(self) -> None:
        """End the command if anything failed, with everything that did and the exit code of the worst.

        Raises:
            DataCorruptionError, SnapshotLostError, StorageReadError, OSError
        """
        text = "; ".join(f"container {container_id}: {error}" for container_id, error in self._failures)
        for kind in _KINDS:
            if any(isinstance(error, kind) for _, error in self._failures):
                raise kind(text)
