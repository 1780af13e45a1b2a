"""What is wrong with the body of a request, in words: the library says it for programmers."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.web.refusals import InvalidFieldError

_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_TYPE: Final = re.compile(r"Expected `([^`]+)`, got `(\w+)`")
_RANGE: Final = re.compile(r"Expected `int` ([<>]=) (-?\d+)")
_PATH: Final = re.compile(r" - at `\$\.?([^`]*)`\Z")
_KINDS: Final = {
    "object": "an object",
    "array": "an array",
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}


def explain(text: str) -> InvalidArgumentError:
    """Return the refusal for what the library says of a body that has not its type."""
    at = _PATH.search(text)
    path = at[1] if at is not None else ""
    missing = _MISSING.match(text)
    if missing is not None:
        return InvalidFieldError(f"{path}.{missing[1]}".lstrip("."), f"{missing[1]} is missing")
    if not path:
        return InvalidArgumentError("the body of the request is no JSON object")
    field, inside, _ = path.partition("[")
    name = field.rpartition(".")[2]
    subject = f"a member of {name}" if inside else name
    return InvalidFieldError(field, f"{subject} {_fault(text.removesuffix(at[0] if at else ''))}")


def _fault(text: str) -> str:
    kinds, outside = _TYPE.match(text), _RANGE.match(text)
    if kinds is not None:
        wanted = [_KINDS.get(kind, kind) for kind in kinds[1].split(" | ") if kind != "null"]
        return f"is {' or '.join(wanted)}, not {_KINDS.get(kinds[2], kinds[2])}"
    if outside is not None:
        return f"is {'at most' if outside[1] == '<=' else 'at least'} {outside[2]}"
    return f"is refused: {text}"
