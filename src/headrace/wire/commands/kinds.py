"""Every command is a request, a reply or both; nothing else travels on a connection."""

from __future__ import annotations


class Command:
    """Anything that can be framed. Fields are in wire order; one with a default may be missing from a
    payload.
    """

    __slots__ = ()


class Request(Command):
    """What a client may send."""

    __slots__ = ()


class InternalRequest(Request):
    """What only processes of Headrace send to each other: ``docs/formats/internal-commands.md``."""

    __slots__ = ()


class Reply(Command):
    """What a server may send."""

    __slots__ = ()
