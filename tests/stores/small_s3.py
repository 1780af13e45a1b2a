"""The part of S3 that a chunk provider uses, in memory: what runs where no real server is installed.

It does what AWS documents, and nothing twice: one bucket, no signatures but their names, HTTP/1.1 with
lengths.
"""

import asyncio
import hashlib
import re
import threading
from contextlib import contextmanager, suppress
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

META = "x-amz-meta-"


class SmallS3:
    """Options make it a server that does not: it overwrites, forgets metadata, or keeps a part of an object
    whose connection was cut.
    """

    def __init__(
        self,
        bucket="bucket",
        *,
        refuses_second=True,
        keeps_metadata=True,
        keeps_parts=False,
        page=1000,
        tls=None,
    ):
        self.bucket = bucket
        self.objects = {}
        self.full = False
        self.refusal = None
        """Status and code of the error that every request gets, of those that ``refuses`` chooses."""
        self.refuses = lambda method, key: True
        self.access_key = None
        """Whose requests are answered; None: everybody's."""
        self.requests = []
        self.latency_s = 0.0
        """From a request to its answer; other connections are served meanwhile."""
        self._refuses_second = refuses_second
        self._keeps_metadata = keeps_metadata
        self._keeps_parts = keeps_parts
        self._page = page
        self._tls = tls

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in head[1:-2])
                }
                try:
                    body = await reader.readexactly(int(headers.get("content-length", 0)))
                except asyncio.IncompleteReadError as error:
                    if self._keeps_parts:
                        self._answer(method, target, headers, error.partial)
                    raise
                self.requests.append((method, target))
                if self.latency_s:
                    await asyncio.sleep(self.latency_s)
                status, answer_headers, answer = self._answer(method, target, headers, body)
                lines = [f"HTTP/1.1 {status} -"]
                length = answer_headers.pop("Content-Length", len(answer))
                lines += [f"{name}: {value}" for name, value in answer_headers.items()]
                lines += [f"Content-Length: {length}", "", ""]
                writer.write("\r\n".join(lines).encode("latin-1") + answer)
                await writer.drain()
                if headers.get("connection") == "close":
                    break
        writer.close()

    def _answer(self, method, target, headers, body):
        url = urlsplit(target)
        bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
        if self.refusal is not None and self.refuses(method, key):
            return error(*self.refusal, method)
        if self.access_key is not None:
            signed = re.search(r"Credential=(\w+)/", headers.get("authorization", ""))
            if signed is None or signed[1] != self.access_key:
                return error(400, "ExpiredToken", method)
        if bucket != self.bucket:
            return error(404, "NoSuchBucket", method)
        if method == "GET" and not key:
            return self._list(dict(parse_qsl(url.query, keep_blank_values=True)))
        if method == "PUT":
            return self._put(key, headers, body)
        if method == "DELETE":
            self.objects.pop(key, None)
            return 204, {}, b""
        if key not in self.objects:
            return error(404, "NoSuchKey", method)
        return self._get(method, key, headers)

    def _put(self, key, headers, body):
        if self.full:
            return error(507, "InsufficientStorage")
        if self._refuses_second and headers.get("if-none-match") == "*" and key in self.objects:
            return error(412, "PreconditionFailed")
        metadata = {name: value for name, value in headers.items() if name.startswith(META)}
        self.objects[key] = (body, metadata if self._keeps_metadata else {})
        return 200, {"ETag": etag(body)}, b""

    def _get(self, method, key, headers):
        body, metadata = self.objects[key]
        answer = {"ETag": etag(body), "Last-Modified": "Thu, 26 Nov 2026 12:00:00 GMT"} | metadata
        if method == "HEAD":
            return 200, answer | {"Content-Length": len(body)}, b""
        if "range" not in headers:
            return 200, answer, body
        first, _, last = headers["range"].removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(body)), len(body) - 1)
        if start >= len(body):
            return error(416, "InvalidRange")
        answer["Content-Range"] = f"bytes {start}-{end}/{len(body)}"
        return 206, answer, body[start : end + 1]

    def _list(self, query):
        after = query.get("continuation-token") or query.get("start-after") or ""
        keys = sorted(key for key in self.objects if key.startswith(query.get("prefix", "")) and key > after)
        size = min(self._page, int(query.get("max-keys", 1000)))
        more = len(keys) > size
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-26T12:00:00.000Z</LastModified>"
            f"<ETag>{etag(self.objects[key][0])}</ETag><Size>{len(self.objects[key][0])}</Size></Contents>"
            for key in keys[:size]
        )
        token = f"<NextContinuationToken>{escape(keys[size - 1])}</NextContinuationToken>" if more else ""
        text = (
            f'<?xml version="1.0"?><ListBucketResult><Name>{self.bucket}</Name><KeyCount>{len(keys[:size])}'
            f"</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        )
        return 200, {"Content-Type": "application/xml"}, text.encode()


def etag(body):
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def error(status, code, method="GET"):
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'.encode()
    return status, {"Content-Type": "application/xml"}, b"" if method == "HEAD" else text


@contextmanager
def beside(**options):
    """A server on a loop of its own: what asks it may wait."""
    started, s3 = threading.Event(), SmallS3(**options)

    async def serve():
        async with s3:
            ended = asyncio.Event()
            loops.append((asyncio.get_running_loop(), ended))
            started.set()
            await ended.wait()

    loops = []
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield s3
    finally:
        loop, ended = loops[0]
        loop.call_soon_threadsafe(ended.set)
        thread.join()
