"""Places of many routing keys in the key space at once, with numpy; one by one without it. Pure.

A column of keys is reduced to its distinct values first. Few of them are hashed one by one (and
remembered); many are hashed together, grouped by length, which works for ASCII keys. The result is the
same, bit for bit.

Source: protocol, "Routing-key hash".
"""

from __future__ import annotations

from typing import Any, Final

from headrace.client.vectors import find_numpy, get_arrow, is_arrow
from headrace.errors import InvalidArgumentError
from headrace.model.hashing import SEED_ROUTING_KEY
from headrace.model.key_space import hash_to_position, key_position

KNOWN_KEYS_MAX: Final = 1 << 16
KNOWN_KEY_CHARS_MAX: Final = 256

_MANY: Final = 512
_C1: Final = 0x87C3_7B91_1142_53D5
_C2: Final = 0x4CF5_AD43_2745_937F
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_MASK: Final = (1 << 64) - 1


class SpreadPositions:
    """Places for events without a key: evenly spread, never two the same in a row, repeatable from a seed."""

    __slots__ = ("_word",)

    def __init__(self, seed: bytes) -> None:
        self._word = int.from_bytes(seed[:8], "big")

    def next(self) -> float:
        """Return the next place in [0, 1)."""
        self._word = (self._word + _GOLDEN) & _MASK
        return hash_to_position(self._word)

    def many(self, count: int) -> Any:
        """Return the next ``count`` places (numpy array, or list without numpy)."""
        np = find_numpy()
        if np is None:
            return [self.next() for _ in range(count)]
        with np.errstate(over="ignore"):
            words = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(self._word)
        self._word = (self._word + count * _GOLDEN) & _MASK
        return _to_positions(np, words)


def key_positions(keys: Any) -> Any:
    """Return the place of each key.

    Args:
        keys: a sequence of ``str``, or a ``pyarrow`` array of strings (also dictionary-encoded).

    Returns:
        A numpy array of float64, or a list where numpy is not worth it.

    Raises:
        InvalidArgumentError: a key is null or no string.
    """
    keys = checked_keys(keys)
    if not is_arrow(keys):
        return _positions_of_list(keys)
    np = find_numpy()
    assert np is not None  # pyarrow needs it
    pa = get_arrow()
    if not pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_encode()
    distinct = keys.dictionary
    if len(distinct) <= _MANY:
        places = np.array([key_position(key) for key in distinct.to_pylist()], np.float64)
    else:
        distinct = distinct.cast(pa.large_string())
        bounds = np.frombuffer(distinct.buffers()[1], np.int64, len(distinct) + 1, 8 * distinct.offset)
        places = _hash_many(np, distinct.buffers()[2] or b"", bounds)
    indices = keys.indices.cast(pa.int32())
    # Read from the buffer: ``to_numpy`` would import pandas, which takes a second of CPU.
    return places[np.frombuffer(indices.buffers()[1], np.int32, len(indices), 4 * indices.offset)]


class KeyPositions:
    """Places of keys that come as lists, remembered: most writers use the same keys again and again.

    Holds at most ``KNOWN_KEYS_MAX`` keys of at most ``KNOWN_KEY_CHARS_MAX`` characters.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, float] = {}

    def of(self, keys: Any) -> Any:
        """Return the place of each key. Arguments, result and errors as in :func:`key_positions`."""
        if is_arrow(keys):
            return key_positions(keys)
        try:
            return self._look_up(keys)
        except (KeyError, TypeError):  # a new key, or none at all
            keys = checked_keys(keys)
        distinct = list(dict.fromkeys(keys))
        if 2 * len(distinct) > KNOWN_KEYS_MAX or max(map(len, distinct), default=0) > KNOWN_KEY_CHARS_MAX:
            return _positions_of_list(keys)
        if len(self._known) + len(distinct) > KNOWN_KEYS_MAX:
            self._known.clear()
        self._known.update(zip(distinct, _positions_of_list(distinct), strict=True))
        return self._look_up(keys)

    def _look_up(self, keys: Any) -> Any:
        places = map(self._known.__getitem__, keys)
        if len(keys) < _MANY or (np := find_numpy()) is None:
            return list(places)
        return np.fromiter(places, np.float64, len(keys))


def _positions_of_list(keys: list[str]) -> Any:
    distinct = dict.fromkeys(keys)
    if len(distinct) > _MANY and (np := find_numpy()) is not None:
        data = [key.encode("utf-8", "surrogatepass") for key in distinct]
        bounds = np.zeros(len(data) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, data), np.int64, len(data)), out=bounds[1:])
        known = dict(zip(distinct, _hash_many(np, b"".join(data), bounds).tolist(), strict=True))
        return [known[key] for key in keys]
    return [key_position(key) for key in keys]


def check_key(key: Any) -> None:
    """Raises InvalidArgumentError unless the routing key is a string."""
    if not isinstance(key, str):
        raise InvalidArgumentError(f"a routing key is a string, not {type(key).__name__}")


def checked_keys(keys: Any) -> Any:
    """Return the keys as one ``pyarrow`` array if they came as one, and as a list otherwise.

    Raises:
        InvalidArgumentError: a key is null or no string.
    """
    if not is_arrow(keys):
        checked = list(keys)
        if not all(issubclass(kind, str) for kind in set(map(type, checked))):
            raise InvalidArgumentError("a routing key is no string")
        return checked
    pa = get_arrow()
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.chunk(0) if keys.num_chunks == 1 else pa.concat_arrays(keys.unify_dictionaries().chunks)
    if pa.types.is_dictionary(keys.type) and keys.dictionary.null_count:
        keys = keys.dictionary_decode()  # the dictionary may hold nulls that no key refers to
    if keys.null_count:
        raise InvalidArgumentError("a routing key is null")
    kind = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InvalidArgumentError(f"routing keys are strings, not {kind}")
    return keys


def _hash_many(np: Any, data: Any, bounds: Any) -> Any:
    """Hash keys given as UTF-8 one behind the other: together if they are ASCII, grouped by length."""
    octets = np.frombuffer(data, np.uint8)
    lengths = np.diff(bounds)
    places = np.empty(len(lengths), np.float64)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        text = octets[bounds[rows][:, None] + np.arange(length)]
        ascii_rows = (text < 0x80).all(axis=1)
        plain = rows[ascii_rows]
        if len(plain):
            places[plain] = _to_positions(np, _murmur_words(np, text[ascii_rows], int(length)))
        for row in rows[~ascii_rows].tolist():
            key = octets[bounds[row] : bounds[row + 1]].tobytes().decode("utf-8", "surrogatepass")
            places[row] = key_position(key)
    return places


def _to_positions(np: Any, words: Any) -> Any:
    return (words >> np.uint64(12)).astype(np.float64) * (1.0 / (1 << 52))


def _murmur_words(np: Any, text: Any, length: int) -> Any:
    """Return the first word of MurmurHash3 (x64, 128 bits) of ASCII keys of one length, encoded as
    UTF-16-LE.
    """
    count, size = len(text), 2 * length
    padded = np.zeros((count, -(-size // 16) * 16), np.uint8)
    padded[:, 0:size:2] = text
    words = padded.view("<u8").astype(np.uint64, copy=False)
    u = np.uint64

    def rotate(value: Any, bits: int) -> Any:
        return (value << u(bits)) | (value >> u(64 - bits))

    def finalise(value: Any) -> Any:
        value = (value ^ (value >> u(33))) * u(0xFF51_AFD7_ED55_8CCD)
        value = (value ^ (value >> u(33))) * u(0xC4CE_B9FE_1A85_EC53)
        return value ^ (value >> u(33))

    with np.errstate(over="ignore"):
        h1 = np.full(count, SEED_ROUTING_KEY, np.uint64)
        h2 = h1.copy()
        full = size // 16
        for block in range(full):
            h1 ^= rotate(words[:, 2 * block] * u(_C1), 31) * u(_C2)
            h1 = (rotate(h1, 27) + h2) * u(5) + u(0x52DC_E729)
            h2 ^= rotate(words[:, 2 * block + 1] * u(_C2), 33) * u(_C1)
            h2 = (rotate(h2, 31) + h1) * u(5) + u(0x3849_5AB5)
        if size % 16 > 8:
            h2 ^= rotate(words[:, 2 * full + 1] * u(_C2), 33) * u(_C1)
        if size % 16:
            h1 ^= rotate(words[:, 2 * full] * u(_C1), 31) * u(_C2)
        h1 ^= u(size)
        h2 ^= u(size)
        h1 += h2
        h2 += h1
        h1, h2 = finalise(h1), finalise(h2)
        return h1 + h2
