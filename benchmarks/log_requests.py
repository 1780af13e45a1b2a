"""What a log in a bucket costs: ``python -m benchmarks.log_requests``.

A standalone server has its log and its chunks in a small S3 server of ours, which counts requests and answers
each after a latency like that of a cloud. Three loads, each with a linger of 0, 50 and 250 ms: idle, with one
open stream; 1,000 events of 100 bytes a second over four segments; as many events of 1 KiB as the server
takes. Printed are requests an hour, those of the log apart from those of the chunks, and dollars a month at
the prices that are given: a LIST is a PUT, a HEAD is a GET, a DELETE is free. Client, server and store share
the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from benchmarks.server import BenchServer
from headrace.client import connect
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.runtime import loops
from tests.stores.small_s3 import beside

LINGERS_MS = (0, 50, 250)
HOURS_A_MONTH = 730
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
KINDS = ("PUT", "LIST", "GET", "DELETE")


def kind_of(method, target):
    """Return what a request is paid as."""
    if method == "GET" and "list-type" in target:
        return "LIST"
    return "GET" if method == "HEAD" else method


def count(requests):
    """Return requests by place (log or chunks) and kind."""
    return Counter(
        ("log" if "bucket/log/" in target or "prefix=log" in target else "chunks", kind_of(method, target))
        for method, target in requests
    )


@contextmanager
def serving(linger_ms, latency_s):
    """A server, and the store that it has everything in."""
    with ExitStack() as stack:
        s3 = stack.enter_context(beside())
        place = f"?endpoint=http://127.0.0.1:{s3.port}"
        options = ("--log", f"s3://bucket/log{place}", "--storage", f"s3://bucket/chunks{place}")
        setting = {"HEADRACE_LOG_IN_BUCKET__LINGER_S": str(linger_ms / 1000)}
        server = stack.enter_context(BenchServer(None, *options, environment={**ENVIRONMENT, **setting}))
        s3.latency_s = latency_s
        yield server, s3


async def prepare(server):
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", "t", StreamConfiguration(scaling=ScalingPolicy.fixed(4)))


async def pace(server, seconds, rate=1000):
    """Write at a rate; return the median time until an acknowledgement, in ms."""
    loop, took = asyncio.get_running_loop(), []
    async with connect(server.uri) as client, client.event_writer("bench", "t") as writer:

        async def write(number):
            began = loop.time()
            await writer.write(b"x" * 100, f"key-{number % 1009}")
            took.append(loop.time() - began)

        began, sent, tasks = loop.time(), 0, set()
        while loop.time() - began < seconds:
            while sent < (loop.time() - began) * rate:
                task = loop.create_task(write(sent))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                sent += 1
            await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)
    return statistics.median(took) * 1000


async def flood(server, seconds):
    """Write what the server takes; return MB/s."""
    events, keys = [b"x" * 1024] * 512, [f"key-{number % 1009}" for number in range(512)]
    sent, began = 0, time.monotonic()
    async with connect(server.uri) as client, client.event_writer("bench", "t") as writer:
        while time.monotonic() - began < seconds:
            writer.write_many(events, keys)
            sent += len(events)
            await writer.drain()
        await writer.flush()
    return sent * 1024 / (time.monotonic() - began) / 1e6


def measure(server, s3, load, seconds):
    """Return requests of an hour, and what the load says of itself."""
    s3.requests.clear()
    began = time.monotonic()
    told = loops.run(load(server, seconds))
    hours = (time.monotonic() - began) / 3600
    return {key: number / hours for key, number in count(list(s3.requests)).items()}, told


def dollars(hourly, part, prices):
    """Return the price of a month of the log's or the chunks' requests."""
    each = {"PUT": prices.put, "LIST": prices.put, "GET": prices.get, "DELETE": 0.0}
    return sum(hourly.get((part, kind), 0) * each[kind] / 1000 for kind in KINDS) * HOURS_A_MONTH


def report(load, linger_ms, hourly, told, prices):
    log = " ".join(f"{hourly.get(('log', kind), 0):>11,.0f}" for kind in KINDS)
    of_chunks = sum(number for (part, _), number in hourly.items() if part == "chunks")
    prices_shown = " ".join(f"{dollars(hourly, part, prices):>10,.2f}" for part in ("log", "chunks"))
    print(f"{load:<12} {linger_ms:>6} {log} {of_chunks:>11,.0f} {prices_shown}  {told}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--idle-s", type=float, default=1300.0, help="two periods of the slowest work")
    parser.add_argument("--seconds", type=float, default=60.0, help="at 1,000 events a second")
    parser.add_argument("--full-s", type=float, default=8.0, help="as many events as possible")
    parser.add_argument("--latency-ms", type=float, default=30.0, help="of the store, for each request")
    parser.add_argument("--put", type=float, default=0.005, help="dollars for 1,000 PUT or LIST requests")
    parser.add_argument("--get", type=float, default=0.0004, help="dollars for 1,000 GET or HEAD requests")
    args = parser.parse_args()
    if args.smoke:
        args.idle_s, args.seconds, args.full_s = 1.0, 1.0, 0.5
    heads = (*(f"{kind:>11}" for kind in KINDS), f"{'chunks':>11}", f"{'log $':>10}", f"{'chunks $':>10}")
    print(f"{'an hour':<12} {'linger':>6} {' '.join(heads)}")
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, ENVIRONMENT))
        servers = {
            linger_ms: stack.enter_context(serving(linger_ms, args.latency_ms / 1000))
            for linger_ms in LINGERS_MS
        }
        for server, _ in servers.values():
            loops.run(prepare(server))
            server.wait_idle()
        for _, s3 in servers.values():
            s3.requests.clear()
        time.sleep(args.idle_s)
        for linger_ms, (_, s3) in servers.items():
            hourly = {key: number * 3600 / args.idle_s for key, number in count(list(s3.requests)).items()}
            report("idle", linger_ms, hourly, "", args)
        for linger_ms, (server, s3) in servers.items():
            hourly, told = measure(server, s3, pace, args.seconds)
            report("1,000/s", linger_ms, hourly, f"acknowledged after {told:.0f} ms", args)
        for linger_ms, (server, s3) in servers.items():
            hourly, told = measure(server, s3, flood, args.full_s)
            report("full load", linger_ms, hourly, f"{told:.0f} MB/s", args)


if __name__ == "__main__":
    main()
