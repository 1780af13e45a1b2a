"""What ``repr`` says of the objects of both clients: what they are of, where, and in which state. Pure."""

from __future__ import annotations


def described(name: str, place: str, uri: str, state: str) -> str:
    """Return ``<headrace.name of place at uri, state>``."""
    return f"<headrace.{name} of {place} at {uri}, {state}>"


def waiting(text: str) -> str:
    """Return what is said of an object as it is said of its twin for threads."""
    return text.replace("<headrace.aio.", "<headrace.", 1)


def writer_state(*, closed: bool, error: BaseException | None, unacknowledged_bytes: int) -> str:
    """Return whether a writer takes events, and how much of what it took is not durable yet."""
    if error is not None:
        return f"failed: {error}"
    return "closed" if closed else f"open, {unacknowledged_bytes} bytes unacknowledged"
