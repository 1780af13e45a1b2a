"""The code blocks of a page, and what to do with each.

A block runs unless the comment ``<!-- not run: why -->`` stands before it. Code of the language python in a
comment ``<!-- run first ... -->`` prepares what follows, without being shown. A block of the language text
is what the block before it prints; ``...`` stands for anything.
"""

import re
from dataclasses import dataclass

RUNNABLE = {"python", "sh"}
DATA = {"toml", "json", "ini", "xml", "yaml", "sql"}
"""Contents of files. A page that shows one and needs it writes it with a block that runs."""

_PART = re.compile(
    r"^<!-- not run: (?P<reason>[^\n]+) -->\n"
    r"|^<!-- run first\n(?P<first>.*?)^-->"
    r"|^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^ *```",
    re.DOTALL | re.MULTILINE,
)


@dataclass
class Block:
    language: str
    code: str
    line: int
    """The first line of its code on the page."""
    reason: str = ""
    """Why it is not run."""
    output: str | None = None
    """What it prints, if the page says it."""


def blocks_of(text):
    """Return what runs, in order.

    Raises:
        ValueError: a block whose language nobody runs or knows as data.
    """
    found, reason, reason_end = [], "", -1
    for part in _PART.finditer(text):
        if part["reason"]:
            reason, reason_end = part["reason"], part.end()
            continue
        why = reason if text[reason_end : part.start()].strip() == "" and reason_end >= 0 else ""
        reason, reason_end = "", -1
        if part["first"] is not None:
            found.append(Block("python", part["first"], _line(text, part.start("first"))))
            continue
        language, line = part["language"], _line(text, part.start("code"))
        code = re.sub(rf"^{part['indent']}", "", part["code"], flags=re.MULTILINE)
        if language == "text" and found and found[-1].output is None:
            found[-1].output = code
        elif language in RUNNABLE:
            found.append(Block(language, code, line, why))
        elif language not in DATA:
            raise ValueError(f"line {line}: nobody runs a block of the language {language!r}")
    return found


def is_printed(expected, output):
    """Whether ``output`` is ``expected``, but for the number of spaces and what ``...`` stands for."""
    pieces = [re.escape(" ".join(piece.split())) for piece in expected.split("...")]
    pattern = r"\s*.*?\s*".join(pieces)
    return re.fullmatch(r"\s*" + pattern + r"\s*", " ".join(output.split()), re.DOTALL) is not None


def _line(text, offset):
    return text.count("\n", 0, offset) + 1
