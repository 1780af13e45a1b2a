"""Sends bytes of files to a socket: the system hands over its pages instead of copying them.

The same bytes are in memory, where they were verified in the same iteration of the loop. So the socket gets
the verified pages, and no call here has to succeed: bytes that were not sent are sent from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Final

from headrace.runtime.open_file import FileSpan

CAN_SEND_FILES: Final = hasattr(os, "sendfile") and hasattr(socket, "MSG_MORE")


class FileSender:
    """A second descriptor of a connection's socket, to be used while the transport has nothing to send.

    The transport owns the connection, watches it, and sends everything else.
    """

    __slots__ = ("_socket",)

    def __init__(self, transport: asyncio.Transport) -> None:
        # A descriptor of its own: the transport's may be closed, and its number reused, unnoticed.
        descriptor = os.dup(transport.get_extra_info("socket").fileno())
        try:
            self._socket = socket.socket(fileno=descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._socket.setblocking(False)

    def send(self, head: bytes | memoryview, span: FileSpan, length: int, trailer: bytes) -> int:
        """Send ``head``, ``length`` bytes of the file and ``trailer`` as far as the socket takes them now.

        Returns:
            How many bytes of all that were sent. Never raises: the transport meets the same failure.
        """
        sent = 0
        with contextlib.suppress(OSError):
            sent = self._socket.send(head, socket.MSG_MORE)
            begin, end = len(head), len(head) + length
            while begin <= sent < end:
                count = os.sendfile(
                    self._socket.fileno(), span.file.descriptor, span.offset + sent - begin, end - sent
                )
                if not count:  # the file has become shorter
                    break
                sent += count
            if sent == end:
                sent += self._socket.send(trailer)
        return sent

    def close(self) -> None:
        """Close this descriptor; the connection ends when the transport has closed its own."""
        self._socket.close()
