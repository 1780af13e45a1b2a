"""Compiles the declaration of a command into the code that writes and reads its payload.

A layout is a list of steps: neighbouring fields of fixed size become one precompiled ``struct``, every other
field is a step of its own. A field with a default is optional: if fewer bytes are left than it takes at
least, it and all fields behind it get their defaults. Bytes left over behind the last field are ignored.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol, get_type_hints

from headrace.errors import InvalidArgumentError, ProtocolError
from headrace.wire.commands.kinds import Command
from headrace.wire.fields import Codec, ListOf, Number, Parts

ELEMENT_BYTES: Final = 128
"""Bound of the memory of an element of a decoded list, besides its bytes."""

_NO_MORE: Final = (
    -1
)  # as an offset in the payload: an optional field was absent, and so is everything behind it


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    name: str
    codec: Number | Codec
    default: Callable[[], Any] | None

    def absent(self, payload: memoryview) -> Any:
        """Return the default of a field that the payload does not have."""
        if self.default is None:
            raise ProtocolError(f"a payload of {len(payload)} bytes ends before its {self.name}")
        return self.default()


class _Step(Protocol):
    def write(self, command: Command, parts: Parts) -> None: ...

    def read(self, payload: memoryview, at: int, values: list[Any]) -> int: ...


class _Numbers:
    """Neighbouring fields of fixed size."""

    __slots__ = ("_fields", "_get", "_struct", "_structs", "_uuids")

    def __init__(self, fields: Sequence[tuple[_Field, Number]]) -> None:
        self._fields = [field for field, _ in fields]
        self._struct = struct.Struct(">" + "".join(number.code for _, number in fields))
        self._structs = [struct.Struct(">" + number.code) for _, number in fields]
        self._get = attrgetter(*(field.name for field, _ in fields))
        self._uuids = [field.name for field, number in fields if number.code == "16s"]

    def write(self, command: Command, parts: Parts) -> None:
        for name in self._uuids:  # struct would cut or pad silently
            if len(getattr(command, name)) != 16:
                raise InvalidArgumentError(f"{name} has to have 16 bytes")
        values = self._get(command)
        try:
            parts.append(self._struct.pack(*values) if len(self._fields) > 1 else self._struct.pack(values))
        except struct.error as error:
            raise InvalidArgumentError(f"{command!r} has a number that does not fit its field") from error

    def read(self, payload: memoryview, at: int, values: list[Any]) -> int:
        if at >= 0:
            end = at + self._struct.size
            if end <= len(payload):
                values += self._struct.unpack_from(payload, at)
                return end
        return self._read_one_by_one(payload, at, values)

    def _read_one_by_one(self, payload: memoryview, at: int, values: list[Any]) -> int:
        for field, number in zip(self._fields, self._structs, strict=True):
            end = at + number.size
            if at == _NO_MORE or end > len(payload):
                values.append(field.absent(payload))
                at = _NO_MORE
            else:
                values += number.unpack_from(payload, at)
                at = end
        return at


class _Variable:
    """One field of variable size."""

    __slots__ = ("_codec", "_field", "_get", "_read", "_size_bytes_min")

    def __init__(self, field: _Field, codec: Codec) -> None:
        self._field = field
        self._codec = codec
        self._get = attrgetter(field.name)
        self._read = codec.read
        self._size_bytes_min = codec.size_bytes_min

    @property
    def is_list(self) -> bool:
        return isinstance(self._codec, ListOf)

    def count_elements(self, payload: memoryview, at: int) -> int:
        """Return how many elements this list has, 0 if it is absent. Raises ProtocolError."""
        assert isinstance(self._codec, ListOf)
        if at == _NO_MORE or len(payload) - at < self._codec.size_bytes_min:
            return 0
        return self._codec.read_count(payload, at)

    def length(self, command: Command) -> int:
        """Return how many elements this list of ``command`` has."""
        return len(self._get(command))

    def write(self, command: Command, parts: Parts) -> None:
        try:
            self._codec.write(self._get(command), parts)
        except struct.error as error:
            raise InvalidArgumentError(
                f"{self._field.name} holds a number that does not fit its field"
            ) from error

    def read(self, payload: memoryview, at: int, values: list[Any]) -> int:
        if at == _NO_MORE or len(payload) - at < self._size_bytes_min:
            values.append(self._field.absent(payload))
            return _NO_MORE
        value, at = self._read(payload, at)
        values.append(value)
        return at


class Layout:
    """Writes and reads the payload of one command."""

    __slots__ = ("_list", "_steps", "_steps_to_list", "command")

    def __init__(self, command: type[Command]) -> None:
        self.command = command
        self._steps = _steps_of(command)
        self._list, self._steps_to_list = _list_of(self._steps)

    def write(self, command: Command, parts: Parts) -> None:
        """Append the payload of ``command`` to ``parts``; data is not copied.

        Raises:
            InvalidArgumentError: a value does not fit its field.
        """
        for step in self._steps:
            step.write(command, parts)

    def read(self, payload: memoryview) -> Command:
        """Return the command of ``payload``; its data are views of it.

        Raises:
            ProtocolError: the payload is too short, or contradicts itself.
        """
        values: list[Any] = []
        at = 0
        for step in self._steps:
            at = step.read(payload, at, values)
        return self.command(*values)

    def memory_bytes(self, command: Command, payload: memoryview) -> int:
        """Return how much memory ``command`` takes, about, which was made of ``payload``."""
        elements = 0 if self._list is None else self._list.length(command)
        return len(payload) + ELEMENT_BYTES * elements

    def decoded_bytes(self, payload: memoryview) -> int:
        """Return how much memory the command of ``payload`` takes, about, without making it.

        Raises:
            ProtocolError: its list, or what is in front of that, cannot be.
        """
        if self._list is None:
            return len(payload)
        at = 0
        for step in self._steps_to_list:
            at = step.read(payload, at, [])
        return len(payload) + ELEMENT_BYTES * self._list.count_elements(payload, at)


def _default_of(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is not dataclasses.MISSING:
        value = field.default
        return lambda: value
    return None


def _steps_of(command: type[Any]) -> list[_Step]:
    hints = get_type_hints(command, include_extras=True)
    steps: list[_Step] = []
    numbers: list[tuple[_Field, Number]] = []
    for declared in dataclasses.fields(command):
        codec = hints[declared.name].__metadata__[0]
        field = _Field(declared.name, codec, _default_of(declared))
        if isinstance(codec, Number):
            numbers.append((field, codec))
            continue
        if numbers:
            steps.append(_Numbers(numbers))
            numbers = []
        steps.append(_Variable(field, codec))
    if numbers:
        steps.append(_Numbers(numbers))
    return steps


def _list_of(steps: list[_Step]) -> tuple[_Variable | None, list[_Step]]:
    """Return the list that a command may have, and the fields in front of it."""
    for at, step in enumerate(steps):
        if isinstance(step, _Variable) and step.is_list:
            return step, steps[:at]
    return None, []
