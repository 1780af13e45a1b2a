"""The bytes between a client and a bookie: requests and answers of BookKeeper's wire protocol 2.

Format page: ``docs/formats/bookkeeper.md``. Integers are big-endian. A packet is a length of four bytes and
as many bytes: a word of version, operation and flags, and then what belongs to the operation.
"""

from __future__ import annotations

import hashlib
import struct
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from headrace.errors import ProtocolError
from headrace.limits import KIB, MIB

VERSION: Final = 2
MASTER_KEY_BYTES: Final = 20

PAYLOAD_BYTES_MAX: Final = 1 * MIB
"""Of an entry that is written here."""
PACKET_BYTES_MAX: Final = 5 * MIB + 1 * KIB
"""Of an answer: bookies take requests up to 5 MiB by default, and entries may be of another client."""

LAST_ENTRY: Final = -1
"""Read instead of a number: the last entry that the bookie has."""


class Operation(IntEnum):
    ADD = 1
    READ = 2


class Flag(IntEnum):
    FENCE = 1
    """Of a read: refuse everybody's adds to this ledger from now on, but those of a recovery."""
    RECOVERY_ADD = 2
    """Of an add: take it although the ledger is fenced."""


class Code(IntEnum):
    """What a bookie answers; any other number is an error like ``IO_ERROR``."""

    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO_ERROR = 101
    UNAUTHORISED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_LEDGER_STATE = 107


class Verdict(Enum):
    """What an answer, or its absence, says of one entry at one bookie."""

    OK = "ok"
    ABSENT = "absent"
    """The bookie says that it has no such entry. One bookie alone proves nothing."""
    FENCED = "fenced"
    UNKNOWN = "unknown"
    """An error, a lost connection, or no answer in time: never taken for "no"."""


_VERDICTS: Final = {
    Code.OK: Verdict.OK,
    Code.NO_LEDGER: Verdict.ABSENT,
    Code.NO_ENTRY: Verdict.ABSENT,
    Code.FENCED: Verdict.FENCED,
}

_ADD: Final = struct.Struct(f">II{MASTER_KEY_BYTES}s")
_READ: Final = struct.Struct(">IIqq")
_ANSWER: Final = struct.Struct(">IIqq")
_LENGTH: Final = struct.Struct(">I")
_LENGTH_BYTES: Final = _LENGTH.size
_ANSWER_HEAD_BYTES: Final = _ANSWER.size


class Answer(NamedTuple):
    """What a bookie answered to a request about one entry of one ledger."""

    operation: int
    code: int
    ledger: int
    entry: int
    """As it was asked for: a read of the last entry is answered with ``LAST_ENTRY``."""
    body: bytes
    """Of a read that was ``OK``: the entry with its head, see ``entry_format``."""

    @property
    def verdict(self) -> Verdict:
        return _VERDICTS.get(self.code, Verdict.UNKNOWN)  # type: ignore[call-overload,no-any-return]

    @property
    def code_name(self) -> str:
        """The code in the words of a message."""
        try:
            return f"{Code(self.code).name} ({self.code})"
        except ValueError:
            return str(self.code)


def master_key(password: bytes) -> bytes:
    """Return what proves to bookies that a client may write to, fence and recover a ledger."""
    # BookKeeper's choice; it keeps out mistakes, not enemies.
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


def encode_add(key: bytes, entry_head: bytes, payload_bytes: int, *, recovery: bool = False) -> bytes:
    """Return the bytes in front of the payload of an add; ``entry_head`` names ledger and entry."""
    assert len(key) == MASTER_KEY_BYTES
    assert 0 <= payload_bytes <= PAYLOAD_BYTES_MAX or recovery
    length = _ADD.size - _LENGTH_BYTES + len(entry_head) + payload_bytes
    return _ADD.pack(length, _word(Operation.ADD, Flag.RECOVERY_ADD if recovery else 0), key) + entry_head


def encode_read(ledger: int, entry: int, fence_key: bytes = b"") -> bytes:
    """Return a read of an entry, or of ``LAST_ENTRY``; with a ``fence_key`` it fences the ledger first."""
    length = _READ.size - _LENGTH_BYTES + len(fence_key)
    flags = Flag.FENCE if fence_key else 0
    return _READ.pack(length, _word(Operation.READ, flags), ledger, entry) + fence_key


def encode_answer(answer: Answer) -> bytes:
    """Return an answer as a bookie sends it: for bookies that are simulated."""
    length = _ANSWER_HEAD_BYTES + len(answer.body)
    head = _ANSWER.pack(_word(answer.operation, 0), answer.code, answer.ledger, answer.entry)
    return _LENGTH.pack(length) + head + answer.body


class AnswerCutter:
    """Cuts the bytes of one connection into answers. After an error the connection is of no use."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes | memoryview) -> list[Answer]:
        """Add received bytes and return the answers that are whole now.

        Raises:
            ProtocolError: this is no answer to a request of ours.
        """
        received = self._received
        received += data
        answers: list[Answer] = []
        position = 0
        while len(received) - position >= _LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(received, position)
            if not _ANSWER_HEAD_BYTES <= length <= PACKET_BYTES_MAX:
                raise ProtocolError(
                    f"a bookie sent an answer of {length} bytes: one has {_ANSWER_HEAD_BYTES} to "
                    f"{PACKET_BYTES_MAX}"
                )
            start = position + _LENGTH_BYTES
            if len(received) - start < length:
                break
            answers.append(_decode_answer(received, start, start + length))
            position = start + length
        del received[:position]
        return answers


def _decode_answer(received: bytearray, start: int, end: int) -> Answer:
    word, code, ledger, entry = _ANSWER.unpack_from(received, start)
    version, operation = word >> 24, word >> 16 & 0xFF
    body = bytes(received[start + _ANSWER_HEAD_BYTES : end])
    if version != VERSION or operation not in {Operation.ADD, Operation.READ}:
        raise ProtocolError(
            f"a bookie answered with operation {operation} of version {version} of its protocol: is a client "
            "of BookKeeper's wire protocol 2 expected there?"
        )
    if body and operation == Operation.ADD:
        raise ProtocolError(f"a bookie answered an add with {len(body)} bytes too many")
    return Answer(operation, code, ledger, entry, body)


def _word(operation: int, flags: int) -> int:
    return VERSION << 24 | operation << 16 | flags
