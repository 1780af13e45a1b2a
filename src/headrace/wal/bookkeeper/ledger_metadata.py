"""What a ledger is, as its node in ZooKeeper says it: its bookies, its quorums, its state and its end.

Format page: ``docs/formats/bookkeeper.md``. The message is BookKeeper's own, so that its tools, its garbage
collection and its other clients see an ordinary ledger.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from google.protobuf.message import DecodeError

from headrace.errors import DataCorruptionError, UnsupportedError
from headrace.rpc.generated import bookkeeper_pb2 as messages
from headrace.wal.bookkeeper.entry_format import NO_ENTRY

MAGIC: Final = b"BookieMetadataFormatVersion\t3\n"
BOOKIES_MAX: Final = 64
"""Of one ensemble."""
_LENGTH_BYTES_MAX: Final = 5
_VERSION_LINE: Final = re.compile(rb"BookieMetadataFormatVersion\t([0-9]{1,9})\n")


class LedgerState(Enum):
    OPEN = messages.LedgerMetadata.OPEN
    IN_RECOVERY = messages.LedgerMetadata.IN_RECOVERY
    CLOSED = messages.LedgerMetadata.CLOSED


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The bookies of entries from ``first_entry`` on, up to the next ensemble of the ledger."""

    first_entry: int
    bookies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMetadata:
    """The metadata of one ledger. A writer has one ensemble for the life of a ledger; a recovery may end it
    with another one.
    """

    write_quorum: int
    ack_quorum: int
    ensembles: tuple[Ensemble, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry: int = NO_ENTRY
    """Of a closed ledger."""
    length: int = 0
    """Bytes of all payloads of a closed ledger."""
    password: bytes = b""
    created_ms: int = 0
    token: int = 0
    """Random: tells whether a creation without an answer was one's own."""
    custom: Mapping[str, bytes] = field(default_factory=dict)
    """What the creator says of the ledger, for people and tools."""

    @property
    def bookies(self) -> tuple[str, ...]:
        """The newest ensemble."""
        return self.ensembles[-1].bookies

    def ensemble_of(self, entry: int) -> tuple[str, ...]:
        """Return the bookies among which ``entry`` is."""
        return next(each.bookies for each in reversed(self.ensembles) if each.first_entry <= entry)


def encode_ledger(ledger: LedgerMetadata) -> bytes:
    """Return the data of the node of a new ledger."""
    message = messages.LedgerMetadata(
        write_quorum=ledger.write_quorum,
        ensemble_size=len(ledger.bookies),
        ack_quorum=ledger.ack_quorum,
        digest=messages.LedgerMetadata.CRC32C,
        password=ledger.password,
        created_ms=ledger.created_ms,
        token=ledger.token,
    )
    for each in ledger.ensembles:
        message.segment.add(first_entry=each.first_entry, bookie=each.bookies)
    for key, value in sorted(ledger.custom.items()):
        message.custom.add(key=key, value=value)
    _set_state(message, ledger.state, ledger.last_entry, ledger.length)
    return _frame(message)


def as_closed(ledger: LedgerMetadata, last_entry: int) -> LedgerMetadata:
    """Return a ledger as if it had ended there: for reading what is known of it."""
    return replace(ledger, state=LedgerState.CLOSED, last_entry=last_entry)


def begin_recovery(data: bytes) -> bytes:
    """Return the data of a node whose ledger is being recovered. All else stays, known here or not.

    Raises:
        DataCorruptionError: the data are no metadata of a ledger.
    """
    message = _parse(data)
    _set_state(message, LedgerState.IN_RECOVERY, NO_ENTRY, 0)
    return _frame(message)


def close_ledger(data: bytes, last_entry: int, length: int, moved: Ensemble | None = None) -> bytes:
    """Return the data of a node with the end of its ledger; ``moved``: where entries are from one on.

    Raises:
        DataCorruptionError: the data are no metadata of a ledger.
    """
    message = _parse(data)
    _set_state(message, LedgerState.CLOSED, last_entry, length)
    if moved is not None:
        if message.segment[-1].first_entry == moved.first_entry:
            del message.segment[-1]
        message.segment.add(first_entry=moved.first_entry, bookie=moved.bookies)
    return _frame(message)


def decode_ledger(data: bytes) -> LedgerMetadata:
    """Read the data of the node of a ledger.

    Raises:
        DataCorruptionError: they are no metadata of a ledger, or contradict themselves.
        UnsupportedError: the ledger has another version or digest than those of this client.
    """
    message = _parse(data)
    if message.digest != messages.LedgerMetadata.CRC32C:
        name = messages.LedgerMetadata.Digest.Name(message.digest)
        raise UnsupportedError(f"the ledger has digests of {name}, and only CRC32C is known here")
    ledger = LedgerMetadata(
        write_quorum=message.write_quorum,
        ack_quorum=message.ack_quorum if message.HasField("ack_quorum") else message.write_quorum,
        ensembles=tuple(Ensemble(each.first_entry, tuple(each.bookie)) for each in message.segment),
        state=LedgerState(message.state),
        last_entry=message.last_entry if message.HasField("last_entry") else NO_ENTRY,
        length=message.length,
        password=message.password,
        created_ms=message.created_ms,
        token=message.token,
        custom={each.key: each.value for each in message.custom},
    )
    _check(ledger, message.ensemble_size)
    return ledger


def _check(ledger: LedgerMetadata, ensemble_size: int) -> None:
    firsts = [each.first_entry for each in ledger.ensembles]
    closed = ledger.state is LedgerState.CLOSED
    if not 1 <= ledger.ack_quorum <= ledger.write_quorum <= ensemble_size <= BOOKIES_MAX:
        problem = (
            f"quorums of {ledger.ack_quorum} and {ledger.write_quorum} of {ensemble_size} bookies are "
            "impossible"
        )
    elif not firsts or firsts[0] != 0 or firsts != sorted(set(firsts)):
        problem = "its ensembles do not follow each other"
    elif any(len(set(each.bookies)) != ensemble_size for each in ledger.ensembles):
        problem = f"an ensemble has not {ensemble_size} bookies"
    elif ledger.last_entry < NO_ENTRY or ledger.length < 0 or (closed and ledger.last_entry < firsts[-1] - 1):
        problem = "its end is impossible"
    else:
        return
    raise DataCorruptionError(f"the metadata of a ledger are damaged: {problem}")


def _set_state(message: messages.LedgerMetadata, state: LedgerState, last_entry: int, length: int) -> None:
    message.state = state.value
    message.length = length
    message.last_entry = last_entry


def _frame(message: messages.LedgerMetadata) -> bytes:
    body = message.SerializeToString(deterministic=True)
    length = len(body)
    prefix = bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return MAGIC + prefix + body


def _parse(data: bytes) -> messages.LedgerMetadata:
    if not data.startswith(MAGIC):
        other = _VERSION_LINE.match(data)
        if other is not None:
            raise UnsupportedError(
                f"the metadata of the ledger have version {other[1].decode()}, and only 3 is known here"
            )
        raise DataCorruptionError("a node holds no metadata of a ledger")
    length, position = _read_length(data)
    body = data[position:]
    if len(body) != length:
        raise DataCorruptionError(f"the metadata of a ledger have {len(body)} bytes instead of {length}")
    try:
        return messages.LedgerMetadata.FromString(body)
    except DecodeError as error:
        raise DataCorruptionError(f"the metadata of a ledger are damaged: {error}") from None


def _read_length(data: bytes) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[len(MAGIC) : len(MAGIC) + _LENGTH_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, len(MAGIC) + index + 1
    raise DataCorruptionError("the metadata of a ledger are cut short")
