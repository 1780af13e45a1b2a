"""Judges the objects of a store that no row names: what left them there, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.segmentstore.inspection.findings import CheckReport, Finding, Severity
from headrace.segmentstore.inspection.object_verdict import ObjectCounts, ObjectJudge, Verdict
from headrace.storage.inspect import StoredChunks

_MANIFEST: Final = ".manifest"
_ORPHAN: Final = "nothing: left by an interrupted write, deleted some time after the next start"
_STRANGER: Final = (
    "never deleted by itself: what lost metadata can be restored from; remove it by hand if not"
)
_OLDER_LOG: Final = (
    "an older log was put back in place of a newer one: find the newer one; later data are missing"
)


def find_strays(
    chunks: StoredChunks,
    reports: Sequence[CheckReport],
    *,
    all_checked: bool,
    running: bool = False,
    counts: ObjectCounts | None = None,
) -> Iterator[Finding]:
    """Yield the objects that no row names, and the directories that cannot be read.

    Objects of containers that were not checked, or whose rows are not all known, are left out. If a server is
    ``running``, so are objects of the present container epoch, which may get their rows soon. All are
    counted in ``counts``.

    Raises:
        StorageReadError: the store did not answer.
    """
    skipped: list[tuple[str, OSError]] = []

    def on_skipped(path: str, error: OSError | None) -> None:
        if error is not None:
            skipped.append((path, error))

    counts = counts or ObjectCounts()
    judge = ObjectJudge(reports, all_checked=all_checked, running=running)
    for name, path in chunks.objects(on_skipped):
        verdict = judge.judge(name)
        counts.objects += 1
        counts.by_verdict[verdict] += 1
        counts.checkpoints += verdict is Verdict.BESIDE and name.endswith(_MANIFEST)
        if verdict is not Verdict.NAMED:
            counts.bytes_by_verdict[verdict] += _length_of(chunks, name)
        finding = _finding(judge, verdict, name, path)
        if finding is not None:
            yield finding
    for path, error in skipped:
        what = f"a directory of chunks cannot be read: {error}"
        yield Finding(Severity.DAMAGE, "directory", what, path, "look at the disk and at its permissions")


def _length_of(chunks: StoredChunks, name: str) -> int:
    try:
        return chunks.find_length(name) or 0
    except OSError:
        return 0  # no row needs it: who may not look at it loses nothing but its size


def _finding(judge: ObjectJudge, verdict: Verdict, name: str, path: str) -> Finding | None:
    if verdict is Verdict.STRANGER:
        what = "an object that belongs to no container of this directory"
        return Finding(Severity.GARBAGE, "unknown object", what, path, _STRANGER)
    if verdict not in {Verdict.ORPHAN, Verdict.LATER}:
        return None
    parsed, owner = judge.owner_of(name)
    if verdict is Verdict.ORPHAN:
        what = f"no row of container {owner.container_id} names this object of container epoch {parsed.epoch}"
        return Finding(Severity.GARBAGE, "orphan", what, path, _ORPHAN)
    what = (
        f"an object of container epoch {parsed.epoch}, but the log of container {owner.container_id} knows "
        f"owners up to {owner.epoch}"
    )
    return Finding(Severity.DAMAGE, "later object", what, path, _OLDER_LOG)
