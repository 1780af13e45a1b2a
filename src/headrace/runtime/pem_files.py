"""What editors put in front of certificates in files, which nobody sees and OpenSSL does not pass over."""

from __future__ import annotations

from typing import Final

_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
"""Of UTF-8 and of both orders of UTF-16."""


def find_mark(content: bytes) -> str:
    """Say what is wrong with a PEM file that begins with a byte order mark; "" if it does not."""
    if not content.startswith(_MARKS):
        return ""
    return "begins with a byte order mark: save it as plain ASCII, or as UTF-8 without one"
