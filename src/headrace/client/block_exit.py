"""The end of a ``with`` block: what is not durable then is an error, but never instead of another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from headrace.client.public_calls import original_of
from headrace.errors import HeadraceError
from headrace.runtime import logs

_log = logs.logger(__name__)


@contextmanager
def beside(error: BaseException | None) -> Iterator[None]:
    """Close something in this block; ``error`` is what the ``with`` block is left with, if it is.

    That error goes on, with a note about what its end could not do. One that is seldom shown with its notes
    (a cancellation, the end of the program) leaves a log line as well.
    """
    try:
        yield
    except HeadraceError as loss:
        if error is None:
            raise
        if original_of(loss) is original_of(error):
            return
        error.add_note(f"and when the block was left: {type(loss).__name__}: {loss}")
        if not isinstance(error, Exception):
            _log.error("%s: %s", type(loss).__name__, loss)


async def close_at_exit(close: Callable[[], Awaitable[None]], error: BaseException | None) -> None:
    """Close what a block of ``async with`` is about."""
    with beside(error):
        await close()
