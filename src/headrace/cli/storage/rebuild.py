"""``headrace storage rebuild``: a data directory anew from chunks and the copies of the logs beside them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from headrace.cli.cluster.live_claims import refuse_while_served
from headrace.cli.output import print_json, print_line, printable
from headrace.cli.progress import Progress
from headrace.cli.storage.opened_store import open_store
from headrace.data_directory.advised_commands import serve_command
from headrace.data_directory.unfinished_rebuild import Wanted
from headrace.repair.rebuild.rebuild import Rebuild, RebuildReport
from headrace.repair.rebuild.report import RebuiltContainer, RebuiltSegment
from headrace.runtime.context import system_runtime
from headrace.runtime.times import parse_time_ms
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper

_NEWER_SHOWN: Final = 20
_SYSTEM: Final = "_system/"
"""Segments of the system itself are only in the answer in JSON."""


class ShownReads(ChunkProviderWrapper):
    """Shows the bytes that are read from a store."""

    def __init__(self, provider: ChunkProvider, progress: Progress) -> None:
        super().__init__(provider)
        self._progress = progress
        self._bytes = 0

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        data = await super().read(name, offset, length)
        self._bytes += len(data)
        self._progress.show(self._bytes)
        return data


def rebuild(*, source: str, data_dir: str, at: str | None, coordinator: str | None, as_json: bool) -> None:
    """Rebuild, and say from what, and what is lost."""
    runtime = system_runtime()
    at_ms = None if at is None else parse_time_ms(at, runtime.clock.now_ms())
    wanted = Wanted(source, at_ms)
    directory = str(Path(data_dir).absolute())
    cluster = refuse_while_served(coordinator, runtime.filesystem, directory, source)
    with Progress("rebuilding", "B", quiet=as_json) as progress, asyncio.Runner() as runner:
        opened = open_store(source, RequestBudget(None, None))
        provider = ShownReads(runner.run(opened.__aenter__()), progress)
        try:
            report = Rebuild(provider, directory, wanted, runtime, runner.run).run()
        finally:
            runner.run(opened.__aexit__(None, None, None))
    if as_json:
        print_json(_document(report))
    else:
        _print(report)
        print_line(printable(f"start it: {serve_command(runtime.filesystem, directory, cluster)}"))


def _document(report: RebuildReport) -> dict[str, Any]:
    return asdict(report)


def _print(report: RebuildReport) -> None:
    for container in report.containers:
        _print_container(container)
    for missing in report.missing:
        print_line(printable(f"stream {missing.stream}: no container has its segment {missing.segment}"))
    segments = sum(len(container.segments) for container in report.containers)
    lost = max(container.lost_tail_ms for container in report.containers)
    print_line(
        f"{report.directory} has {len(report.containers)} containers with {segments} segments, as of "
        f"{lost / 1000:.0f} s ago at the most; container epochs go on from {report.epoch}"
    )


def _print_container(container: RebuiltContainer) -> None:
    head = f"container {container.container}"
    for problem in container.passed_over:
        print_line(printable(f"{head}: passed over: {problem}"))
    at = datetime.fromtimestamp(container.time_ms / 1000, UTC).isoformat(timespec="seconds")
    print_line(
        f"{head}: from storage checkpoint {container.checkpoint} of {at}, "
        f"{container.lost_tail_ms / 1000:.0f} s old, {container.records} records with {container.bytes} bytes"
    )
    for segment in container.segments:
        if segment.name.startswith(_SYSTEM):
            continue
        print_line(printable(f"{head}: {_segment_words(segment)}"))
    for found in container.newer[:_NEWER_SHOWN]:
        print_line(
            printable(
                f"{head}: newer: {found.bytes} bytes of {found.segment} from {found.offset} on, container "
                f"epoch {found.epoch}, in {found.name}"
            )
        )
    more = len(container.newer) + container.newer_left_out - _NEWER_SHOWN
    if more > 0:
        print_line(f"{head}: newer: and {more} objects more, {container.newer_bytes} bytes in all")


def _segment_words(segment: RebuiltSegment) -> str:
    words = f"{segment.name}: {segment.start_offset} to {segment.length}, {segment.stored_length} stored"
    if segment.sealed:
        words += ", sealed"
    if segment.writers:
        words += f", {len(segment.writers)} writers"
    if segment.is_transaction:
        words += ", an open transaction"
    return words
