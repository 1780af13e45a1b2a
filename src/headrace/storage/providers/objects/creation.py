"""Creates one object exactly once, over a network that loses answers.

The PUT is conditional (``If-None-Match: *``) and in one piece: several servers do not honour the condition
when an object is completed from parts. Its metadata say which call made it, by a *write id*. So a call that
got no answer, or "exists", looks at the object and knows its own. That makes it safe to repeat a PUT: all
attempts of a call have one write id and one content, whichever of them is carried out, and however late.

=============================  =========================================================================
answer to a PUT                what is done
=============================  =========================================================================
200                            created
412 exists                     look: it may be ours, by an attempt before or by a proxy that repeats
409 conflict, 5xx, none        pause, look, repeat, at most three times
507, quota                     StorageFullError, unless an earlier attempt may have happened
403, no such bucket            unknown to the contract; the failure says what to do
=============================  =========================================================================

A look finds our object: created. Another call's: ChunkExistsError. Nothing, no answer, or a part of our
object, which a server may keep when its connection is cut: unknown, and what may be there is not deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import Enum
from typing import Final

from headrace.errors import ChunkExistsError, StorageFullError, StorageWriteError
from headrace.runtime.entropy import Entropy
from headrace.storage.providers.contract import Buffer
from headrace.storage.providers.objects.errors import (
    REFUSALS,
    Failure,
    FailureKind,
    ObjectRequestError,
)
from headrace.storage.providers.objects.keys import WRITE_ID
from headrace.storage.providers.objects.operator import ObjectOperator

LOOKS_AFTER_REFUSAL: Final = 3
"""A refused call looks so often, if looks fail: what is there decides whose object it is."""

PAUSES_S: Final = (0.1, 0.4, 1.6)
"""About how long is waited after each attempt that failed for a while."""

_DONE_NOTHING: Final = REFUSALS | {FailureKind.FULL}


class _Seen(Enum):
    """What a look finds."""

    OURS = "the object of this call, whole"
    ANOTHER = "the object of another call"
    TORN = "the object of this call with another length"
    UNMARKED = "an object that does not say whose it is"
    ABSENT = "no object"
    NOTHING = "the store did not answer"


class ObjectCreation:
    """One call: :meth:`begin`, then :meth:`finish`."""

    def __init__(
        self,
        operator: ObjectOperator,
        name: str,
        key: str,
        content: Buffer,
        metadata: dict[str, str],
        entropy: Entropy,
    ) -> None:
        self._operator = operator
        self._name = name
        self._key = key
        self._content = content
        self._metadata = metadata
        self._entropy = entropy
        self._sent: Awaitable[None] | None = None

    def begin(self) -> None:
        """Send the first PUT; threads of the library do it while the caller does something else."""
        self._sent = self._operator.create(self._key, self._content, self._metadata)

    async def finish(self) -> Failure | None:
        """Wait until the object is created: None; or until its outcome stays unknown, and return why.

        Raises:
            ChunkExistsError, StorageFullError: it did not happen.
            StorageWriteError: the store has a part of the object.
        """
        in_doubt = False
        failure = None
        for pause_s in (*PAUSES_S, None):
            failure = await self._finish_attempt()
            if failure is None:
                return None
            if failure.kind is FailureKind.FULL and not in_doubt:
                raise StorageFullError(f"creating {self._name}: {failure.text}")
            if failure.is_temporary and pause_s is not None:
                await asyncio.sleep(pause_s * (0.5 + self._entropy.random()))
            if await self._is_created(failure, in_doubt=in_doubt):
                return None
            if not failure.is_temporary:
                break
            in_doubt = True
            if pause_s is not None:
                self.begin()
        return failure

    async def _finish_attempt(self) -> Failure | None:
        assert self._sent is not None, "begin it first"
        try:
            await self._sent
        except ObjectRequestError as error:
            return error.failure
        return None

    async def _is_created(self, failure: Failure, *, in_doubt: bool) -> bool:
        """Look whether an attempt has made our object.

        ``in_doubt``: an attempt before the one that failed may have.

        Raises:
            ChunkExistsError: the object of another call is there, or was.
            StorageWriteError: our object is there and will not be whole.
        """
        if failure.kind in _DONE_NOTHING and not in_doubt:
            return False
        refused = failure.kind is FailureKind.EXISTS
        match await self._look(LOOKS_AFTER_REFUSAL if refused else 1):
            case _Seen.OURS:
                return True
            case _Seen.TORN:
                raise StorageWriteError(f"{self._name} has not the length of what was sent: {failure.text}")
            case _Seen.ANOTHER:
                raise ChunkExistsError(self._name)
            case _Seen.ABSENT | _Seen.UNMARKED if refused and not in_doubt:
                raise ChunkExistsError(self._name)  # the only attempt was refused: whose it was is no matter
            case _:
                return False

    async def _look(self, attempts: int) -> _Seen:
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(PAUSES_S[0])
            try:
                head = await self._operator.look(self._key)
            except ObjectRequestError as error:
                if error.failure.kind is FailureKind.ABSENT:
                    return _Seen.ABSENT
                continue
            write_id = head.metadata.get(WRITE_ID)
            if write_id is None:
                return _Seen.UNMARKED
            if write_id != self._metadata[WRITE_ID]:
                return _Seen.ANOTHER
            return _Seen.OURS if head.length == memoryview(self._content).nbytes else _Seen.TORN
        return _Seen.NOTHING
