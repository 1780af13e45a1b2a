"""``headrace storage copy``: all objects of a store to another one."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from headrace.cli.output import print_json, print_line, printable
from headrace.cli.progress import Progress
from headrace.cli.storage.opened_store import open_store
from headrace.errors import DataCorruptionError, InvalidArgumentError, SnapshotLostError
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.wrappers.token_bucket import RequestBudget
from headrace.storage.transfer.object_copy import CopyReport, ObjectCopy


def copy_store(
    *,
    source: str,
    target: str,
    verify: bool,
    requests_per_s: float | None,
    bytes_per_s: float | None,
    as_json: bool,
) -> None:
    """Copy, say what was done, and raise if the target is not the same in the end."""
    _check_apart(StorageLocation.parse(source), StorageLocation.parse(target))
    budget = RequestBudget(requests_per_s, bytes_per_s)
    with Progress("copying", "B", quiet=as_json) as progress:
        report = asyncio.run(_copy(source, target, budget, progress, verify=verify))
    if as_json:
        print_json(asdict(report))
    else:
        _print(report)
    if not report.objects:
        raise InvalidArgumentError(f"there is nothing in {source}")
    if report.different:
        count = len(report.different)
        raise DataCorruptionError(f"{count} objects of the target are not those of the source")
    if report.changed:
        raise SnapshotLostError(
            f"{len(report.changed)} objects came, grew or went meanwhile: a server writes to the source; "
            "repeat the copy when it is stopped"
        )


def _check_apart(source: StorageLocation, target: StorageLocation) -> None:
    """Raises: InvalidArgumentError: one place is in the other, so that copies would be copied."""
    if (source.scheme, source.bucket, source.option("endpoint")) == (
        target.scheme,
        target.bucket,
        target.option("endpoint"),
    ):
        inner, outer = sorted((f"{source.prefix}/".lstrip("/"), f"{target.prefix}/".lstrip("/")), key=len)[
            ::-1
        ]
        if inner.startswith(outer):
            raise InvalidArgumentError("one of the places is in the other: choose another prefix")


async def _copy(
    source_uri: str, target_uri: str, budget: RequestBudget, progress: Progress, *, verify: bool
) -> CopyReport:
    def on_progress(report: CopyReport) -> None:
        progress.show(report.copied_bytes, f"{report.copied:,} objects, {report.skipped:,} were there")

    async with (
        open_store(source_uri, budget) as source,
        open_store(target_uri, budget, makes=True) as target,
    ):
        return await ObjectCopy(source, target, verify=verify, on_progress=on_progress).run()


def _print(report: CopyReport) -> None:
    for what in report.different:
        print_line(printable(f"different: {what} | do: find out which is right, and remove the other"))
    for what in report.changed:
        print_line(printable(f"changed: {what} | do: repeat the copy when no server writes to the source"))
    if report.left_out:
        print_line(f"and {report.left_out} more")
    print_line(
        f"{report.objects} objects with {report.bytes} bytes: {report.copied} copied with "
        f"{report.copied_bytes} bytes ({report.replaced} in place of a part), {report.skipped} were there, "
        f"{report.verified_bytes} bytes compared; {report.only_in_target} objects are only in the target"
    )
