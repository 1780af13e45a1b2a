"""Steps that are all made, even if an earlier one fails: no descriptor and no thread may be left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from headrace.errors import HeadraceError, WalWriteError
from headrace.wal.file.segment_files import translate_error


class LastSteps:
    """The errors of the steps of an end, in order."""

    __slots__ = ("_doing", "_met")

    def __init__(self, doing: str) -> None:
        """``doing`` is what an error says was done."""
        self._doing = doing
        self._met: list[BaseException] = []

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Go on behind the block whatever it raises."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - raised at the end
            self._met.append(error)

    @property
    def failed(self) -> bool:
        """Whether a step so far has raised."""
        return bool(self._met)

    def end(self) -> None:
        """Raise a cancellation or an interrupt, else the first error, as a ``HeadraceError``.

        Raises:
            HeadraceError: as it was met, or for an OSError.
            WalWriteError: for anything else.
            BaseException: a cancellation, an interrupt.
        """
        for error in self._met:
            if not isinstance(error, Exception):
                raise error
        if self._met:
            first = self._met[0]
            if isinstance(first, HeadraceError):
                raise first
            if isinstance(first, OSError):
                raise translate_error(first, self._doing) from first
            raise WalWriteError(f"{self._doing} failed: {first!r}") from first
