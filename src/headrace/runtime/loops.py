"""Starts the one event loop of a process: uvloop where it can be imported, asyncio where not or where asked
for.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, TypeVar

from headrace.errors import InvalidArgumentError

T = TypeVar("T")
LoopKind = Literal["auto", "uvloop", "asyncio"]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run(main: Coroutine[Any, Any, T], *, kind: LoopKind = "auto", debug: bool = False) -> T:
    """Run ``main`` on a new event loop until it returns, then cancel what is left and close the loop.

    Args:
        main: the program.
        kind: which loop; ``auto`` takes uvloop if it is installed.
        debug: asyncio's debug mode (slow callbacks, forgotten awaits).

    Raises:
        InvalidArgumentError: uvloop was asked for and is not installed, or Python runs with ``-O``, which
        removes
            the assertions that are part of the design.
    """
    try:
        refuse_without_assertions()
        factory = loop_factory(kind)
    except InvalidArgumentError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=factory, debug=debug) as runner:
        return runner.run(main)


#: : How long a thread may use the interpreter while another one waits for it. The default of 5 ms is longer
#: than a
#: whole append takes: writer threads and gRPC threads would make the loop wait for it.
SWITCH_INTERVAL_S: Final = 0.0005


def share_interpreter() -> None:
    """Switch between the threads of a server quickly. For whole processes, not for embedding programs."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def loop_factory(kind: LoopKind) -> LoopFactory:
    """Return the function that makes a loop of this kind."""
    if kind == "asyncio":
        return asyncio.new_event_loop
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        factory: LoopFactory = uvloop.new_event_loop
        return factory
    if kind == "uvloop":
        raise InvalidArgumentError("the uvloop event loop was requested, but uvloop is not installed")
    return asyncio.new_event_loop


def refuse_without_assertions() -> None:
    """Refuse to go on under ``python -O``: a broken invariant must stop its owner, not spread."""
    try:
        assert False  # noqa: B011, PT015 - the question is whether this line runs
    except AssertionError:
        return
    raise InvalidArgumentError("do not run with -O or PYTHONOPTIMIZE: assertions protect the data")
