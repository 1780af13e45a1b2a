import json
from dataclasses import dataclass, field
from enum import Enum

from headrace.runtime.statistics import ITEMS_MAX, TEXT_CHARS_MAX, plain_values


class Level(Enum):
    HIGH = 1


@dataclass(slots=True)
class Inner:
    ratio: float
    raw: bytes


@dataclass(slots=True)
class Outer:
    inner: Inner
    level: Level = Level.HIGH
    by_number: dict[int, Inner] = field(default_factory=dict)
    names: tuple[str, ...] = ("a", "b")


def test_dataclasses_become_their_fields_however_deep():
    found = plain_values(Outer(Inner(0.5, b"\x01\xff"), by_number={7: Inner(float("inf"), b"")}))
    assert found == {
        "inner": {"ratio": 0.5, "raw": "01ff"},
        "level": "HIGH",
        "by_number": {"7": {"ratio": "inf", "raw": ""}},
        "names": ["a", "b"],
    }
    json.dumps(found, allow_nan=False)


def test_what_has_no_end_is_cut_and_counted():
    assert len(plain_values("x" * 5000)) == TEXT_CHARS_MAX
    found = plain_values({str(number): number for number in range(5000)})
    assert found["left_out"] == 5000 - ITEMS_MAX
    assert plain_values(list(range(5000)))[-1] == f"{5000 - ITEMS_MAX} left out"
    endless: dict[str, object] = {}
    endless["self"] = endless
    json.dumps(plain_values(endless))


def test_what_is_no_value_is_shown_as_text():
    assert plain_values(object).startswith("<class")
    assert plain_values(True) is True
    assert plain_values(None) is None
