"""The envelope of one record: bytes in front of a value with its time, key and headers. Pure.

Source: ``docs/formats/record.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from headrace.client.framing.event_frames import own_bytes
from headrace.errors import InvalidArgumentError
from headrace.runtime.times import milliseconds_of

MARK: Final = 0xFE
VERSION: Final = 1
HEAD: Final = Struct(">BBqHH")
"""Mark, version, time, length of the key, length of all headers."""
HEAD_BYTES: Final = HEAD.size
NO_KEY: Final = 0xFFFF
KEY_BYTES_MAX: Final = NO_KEY - 1

HEADERS_MAX: Final = 64
HEADERS_BYTES_MAX: Final = 0xFFFF
NAME_BYTES_MAX: Final = 0xFF

TIME_MS_MIN: Final = -62_135_596_800_000
TIME_MS_MAX: Final = 253_402_300_799_999
"""The years 1 to 9999, which a ``datetime`` can be."""

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VALUE_LENGTH: Final = Struct(">H")
_LENGTHS: Final = Struct(">HH")
_LENGTHS_BEGIN: Final = HEAD_BYTES - _LENGTHS.size

_KNOWN_KEYS: Final[dict[str, bytes]] = {}
"""Keys of records without headers, as those have them: most writers use the same ones again and again."""
_KNOWN_KEYS_MAX: Final = 1 << 16
_KNOWN_KEY_BYTES_MAX: Final = 256

Headers = Mapping[str, Any]
"""Names with values: bytes, or text, which becomes UTF-8."""


class Head(NamedTuple):
    """What the first bytes of a record say."""

    key_length: int
    """``NO_KEY``: it has none."""
    headers_length: int
    time_ms: int

    @property
    def value_begin(self) -> int:
        """Where the value begins in the record."""
        return HEAD_BYTES + self.key_bytes + self.headers_length

    @property
    def key_bytes(self) -> int:
        return 0 if self.key_length == NO_KEY else self.key_length


def prefix_of(key: str | None, time_ms: int, headers: bytes) -> bytes:
    """Return all of a record but its value. Arguments are checked ones; ``headers`` are encoded.

    Raises:
        InvalidArgumentError: the key is too long, or no text.
    """
    if key is None:
        return HEAD.pack(MARK, VERSION, time_ms, NO_KEY, len(headers)) + headers
    data = key_bytes(key)
    return HEAD.pack(MARK, VERSION, time_ms, len(data), len(headers)) + data + headers


def prefixes_of(keys: Iterable[str], time_ms: int, headers: bytes) -> dict[str, bytes]:
    """Return what :func:`prefix_of` returns for each of several keys."""
    first = HEAD.pack(MARK, VERSION, time_ms, 0, 0)[:_LENGTHS_BEGIN]
    if headers:
        return {key: first + _key_part(key, len(headers)) + headers for key in keys}
    try:
        return {key: first + _KNOWN_KEYS[key] for key in keys}
    except KeyError:
        pass
    prefixes: dict[str, bytes] = {}
    for key in keys:
        part = _KNOWN_KEYS.get(key)
        if part is None:
            part = _key_part(key, 0)
            if len(part) <= _KNOWN_KEY_BYTES_MAX:
                if len(_KNOWN_KEYS) >= _KNOWN_KEYS_MAX:
                    _KNOWN_KEYS.clear()
                _KNOWN_KEYS[key] = part
        prefixes[key] = first + part
    return prefixes


def _key_part(key: str, headers_length: int) -> bytes:
    """Return the lengths, and the key behind them."""
    data = key_bytes(key)
    return _LENGTHS.pack(len(data), headers_length) + data


def key_bytes(key: str) -> bytes:
    """Return a routing key as a record has it: bytes that came through the command line are themselves again.

    Raises:
        InvalidArgumentError: it is no string, longer than a record takes, or no text.
    """
    try:
        data = key.encode(errors="surrogateescape")
    except AttributeError:
        raise InvalidArgumentError(f"a routing key is a string, not {type(key).__name__}") from None
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"a routing key is no text: {error}") from None
    if len(data) > KEY_BYTES_MAX:
        raise InvalidArgumentError(f"a key of {len(data)} bytes is too long: a record has {KEY_BYTES_MAX}")
    return data


def time_ms_of(time: datetime | int) -> int:
    """Return the time of a record in ms since 1970.

    Raises:
        InvalidArgumentError: it is neither a ``datetime`` with a zone nor ms since 1970, or not in the
            years 1 to 9999.
    """
    number: object = time
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidArgumentError(f"{time} has no zone: give it one, such as tzinfo=datetime.UTC")
        number = milliseconds_of(time)
    if isinstance(number, bool) or not isinstance(number, int) or not TIME_MS_MIN <= number <= TIME_MS_MAX:
        raise InvalidArgumentError(
            f"{time!r:.100} is no time of a record: a datetime with a zone, or milliseconds since 1970, "
            "in the years 1 to 9999"
        )
    return number


def datetime_of(time_ms: int) -> datetime:
    """Return the time of a record, in UTC."""
    return _BEGINNING + timedelta(milliseconds=time_ms)


def encode_headers(headers: Headers | None) -> bytes:
    """Return headers as a record has them.

    Raises:
        InvalidArgumentError: they are no mapping of names to bytes or text, or more than a record takes.
    """
    if not headers:
        return b""
    if not isinstance(headers, Mapping):
        raise InvalidArgumentError(f"headers are a mapping of names to bytes, not {type(headers).__name__}")
    if len(headers) > HEADERS_MAX:
        raise InvalidArgumentError(f"{len(headers)} headers are too many: a record has {HEADERS_MAX}")
    parts: list[bytes] = []
    for name, value in headers.items():
        data = _header_value(name, value)
        if len(data) > HEADERS_BYTES_MAX:
            raise InvalidArgumentError(
                f"header {name!r:.100} has {len(data)} bytes: all headers of a record have "
                f"{HEADERS_BYTES_MAX} together"
            )
        parts += (_header_name(name), _VALUE_LENGTH.pack(len(data)), data)
    found = b"".join(parts)
    if len(found) > HEADERS_BYTES_MAX:
        raise InvalidArgumentError(
            f"headers of {len(found)} bytes are too large: a record has {HEADERS_BYTES_MAX}"
        )
    return found


@lru_cache(maxsize=1024)
def _header_name(name: str) -> bytes:
    try:
        data = name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise InvalidArgumentError(f"the name of a header is a text, not {name!r:.100}") from None
    if not 1 <= len(data) <= NAME_BYTES_MAX:
        raise InvalidArgumentError(
            f"the name of a header has 1 to {NAME_BYTES_MAX} bytes, not {len(data)}: {name!r:.100}"
        )
    return bytes([len(data)]) + data


def _header_value(name: object, value: Any) -> bytes:
    if type(value) is bytes:
        return value
    try:
        return value.encode() if isinstance(value, str) else own_bytes(value)
    except (InvalidArgumentError, UnicodeEncodeError):
        raise InvalidArgumentError(
            f"header {name!r:.100} is bytes or text, not {type(value).__name__}"
        ) from None


def read_head(data: bytes | bytearray | memoryview, begin: int, end: int) -> Head | str:
    """Return what the first bytes of the event ``data[begin:end]`` say, or why it is no record."""
    length = end - begin
    if length < HEAD_BYTES:
        return f"{length} bytes are too few"
    mark, version, time_ms, key_length, headers_length = HEAD.unpack_from(data, begin)
    if mark != MARK:
        return f"it begins with the byte {mark:#04x} instead of {MARK:#04x}"
    if version != VERSION:
        return f"its envelope has version {version} instead of {VERSION}"
    head = Head(key_length, headers_length, time_ms)
    if head.value_begin > length:
        return f"its key and headers do not fit into {length} bytes"
    if not TIME_MS_MIN <= time_ms <= TIME_MS_MAX:
        return f"its time is {time_ms} ms"
    return head


def decode_headers(data: bytes) -> dict[str, bytes]:
    """Return the headers of a record.

    Raises:
        ValueError: they are damaged.
    """
    found: dict[str, bytes] = {}
    place, end, count = 0, len(data), 0
    while place < end:
        name_end = place + 1 + data[place]
        begin = name_end + _VALUE_LENGTH.size
        if begin > end:
            raise ValueError("a header exceeds them")
        value_end = begin + _VALUE_LENGTH.unpack_from(data, name_end)[0]
        count += 1
        if value_end > end or count > HEADERS_MAX or not data[place]:
            raise ValueError("a header exceeds them, or has no name, or there are too many")
        found[data[place + 1 : name_end].decode()] = data[begin:value_end]
        place = value_end
    return found
