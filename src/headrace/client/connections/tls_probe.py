"""Asks a server that hangs up how it wants to be spoken to: with TLS or without."""

from __future__ import annotations

import asyncio
import ssl

from headrace.model.endpoint import Endpoint
from headrace.wire.catalogue import TYPE_IDS, VERSION, VERSION_OLDEST
from headrace.wire.commands import Hello
from headrace.wire.frames import HEAD_BYTES, encode


async def speaks_tls(endpoint: Endpoint, timeout_s: float) -> bool:
    """Tell whether the server answers a TLS handshake. Nothing is sent over the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # who it is does not matter here
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(*endpoint, ssl=context)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, TimeoutError, UnicodeError):
        return False
    writer.transport.abort()
    return True


async def greets_plainly(endpoint: Endpoint, timeout_s: float) -> bool:
    """Tell whether a segment store answers a greeting that is not encrypted."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(*endpoint)
            try:
                writer.write(encode(Hello(VERSION, VERSION_OLDEST)))
                head = await reader.readexactly(HEAD_BYTES)
            finally:
                writer.transport.abort()
    except (OSError, EOFError, TimeoutError, UnicodeError):
        return False
    return head.startswith(TYPE_IDS[Hello].to_bytes(4, "big", signed=True))
