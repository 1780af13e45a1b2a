"""Looks at a store from code that may wait, wherever it runs: each look has a loop of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.wal.blocking_look import look
from headrace.wal.objects.log_objects import LogObjects
from headrace.wal.objects.object_calls import ObjectCalls
from headrace.wal.objects.requests import Plan

R = TypeVar("R")


class BlockingLook:
    """``make_store`` makes the store anew for each look, on its loop; it is closed behind it."""

    def __init__(self, make_store: Callable[[], LogObjects]) -> None:
        self._make_store = make_store

    def run(self, plan: Plan[R]) -> R:
        """Return the result of a plan that changes nothing; raises what it raises."""
        return look(lambda: self._run(plan))

    async def _run(self, plan: Plan[R]) -> R:
        store = self._make_store()
        try:
            return await ObjectCalls(store).run(plan)
        finally:
            await store.close()
