"""Requests and answers of clients of one segment, as a history records them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class AppendCall:
    """Append ``data``; with an event number it is refused or acknowledged without effect if that was seen
    already.
    """

    segment: str
    data: bytes
    writer: str = ""
    event_number: int | None = None
    expected_offset: int | None = None
    """Set for a conditional append."""

    def __str__(self) -> str:
        condition = "" if self.expected_offset is None else f" if at {self.expected_offset}"
        number = "" if self.event_number is None else f" as {self.writer}#{self.event_number}"
        return f"append {_brief(self.data)}{number}{condition}"


@dataclass(frozen=True, slots=True)
class ReadCall:
    """Read at ``offset``."""

    segment: str
    offset: int

    def __str__(self) -> str:
        return f"read at {self.offset}"


@dataclass(frozen=True, slots=True)
class InfoCall:
    """Ask for length, start and whether it is sealed."""

    segment: str

    def __str__(self) -> str:
        return "info"


@dataclass(frozen=True, slots=True)
class SealCall:
    """Allow no further appends."""

    segment: str

    def __str__(self) -> str:
        return "seal"


@dataclass(frozen=True, slots=True)
class TruncateCall:
    """Drop everything before ``offset``."""

    segment: str
    offset: int

    def __str__(self) -> str:
        return f"truncate at {self.offset}"


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The append is durable."""

    length_after: int | None = None
    """Length of the segment just behind this append, if the answer contains it."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Bytes from the offset asked for; empty at the end of the segment."""

    data: bytes
    end_of_segment: bool = False
    """The segment is sealed and there is nothing behind ``data``."""

    def __str__(self) -> str:
        return _brief(self.data) + (" up to the end" if self.end_of_segment else "")


@dataclass(frozen=True, slots=True)
class InfoResult:
    """What the segment was like."""

    length: int
    start_offset: int = 0
    sealed: bool = False


Call = AppendCall | ReadCall | InfoCall | SealCall | TruncateCall
Result = AppendResult | ReadResult | InfoResult

_CALLS: Final[dict[str, type[Call]]] = {
    "append": AppendCall, "read": ReadCall, "info": InfoCall, "seal": SealCall, "truncate": TruncateCall,
}  # fmt: skip
_RESULTS: Final[dict[str, type[Result]]] = {"append": AppendResult, "read": ReadResult, "info": InfoResult}


def to_json(value: Call | Result) -> dict[str, Any]:
    """Return a call or result as what JSON can hold; bytes become hexadecimal text."""
    kinds: dict[str, type[Any]] = {**_CALLS} if isinstance(value, tuple(_CALLS.values())) else {**_RESULTS}
    kind = next(name for name, cls in kinds.items() if type(value) is cls)
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"kind": kind} | {
        key: item.hex() if isinstance(item, bytes) else item for key, item in fields.items()
    }


def call_from_json(tree: dict[str, Any]) -> Call:
    """Return the call that ``to_json`` has described; other keys are ignored.

    Raises:
        ValueError: it is none.
    """
    call: Call = _from_json(_CALLS, tree)
    return call


def result_from_json(tree: dict[str, Any]) -> Result:
    """Return the result that ``to_json`` has described.

    Raises:
        ValueError: it is none.
    """
    result: Result = _from_json(_RESULTS, tree)
    return result


def _from_json(kinds: dict[str, type[Any]], tree: dict[str, Any]) -> Any:
    cls = kinds.get(tree.get("kind", ""))
    if cls is None:
        raise ValueError(f"unknown kind in {tree}")
    fields = {field.name: tree[field.name] for field in dataclasses.fields(cls) if field.name in tree}
    if "data" in fields:
        fields["data"] = bytes.fromhex(fields["data"])
    return cls(**fields)


def _brief(data: bytes) -> str:
    shown = data[:12].hex()
    return f"{len(data)} bytes {shown}{'...' if len(data) > 12 else ''}"
