"""``headrace storage check``: every chunk against its row, and every object against all rows."""

from __future__ import annotations

from typing import Any, Final

from headrace.cli.check.container import Checked, conclude, document_of, examine, print_findings
from headrace.cli.inspect.chunk_access import ChunkAccess
from headrace.cli.inspect.data import open_data
from headrace.cli.output import print_json, print_line
from headrace.cli.progress import Progress
from headrace.segmentstore.inspection.object_verdict import Verdict

_WORDS: Final = {
    Verdict.BESIDE: "beside chunks",
    Verdict.ORPHAN: "orphaned",
    Verdict.LATER: "of later owners",
    Verdict.STRANGER: "of no container",
    Verdict.UNJUDGED: "not judged",
}


def check_storage(
    *,
    data_dir: str,
    deep: bool,
    storage: str | None,
    requests_per_s: float | None,
    bytes_per_s: float | None,
    as_json: bool,
) -> None:
    """Check all containers and the whole store; raises DataCorruptionError if anything is damaged."""
    with Progress("checking", "B", quiet=as_json) as progress:
        access = ChunkAccess(storage or "", requests_per_s, bytes_per_s, progress)
        checked = examine(open_data(data_dir, access), None, deep=deep)
    if as_json:
        print_json(document_of(checked) | {"storage": _document(checked)})
    else:
        print_findings(checked)
        print_line(_summary(checked))
    conclude(checked)


def _document(checked: Checked) -> dict[str, Any]:
    counts, reports = checked.strays.counts, checked.reports
    unnamed = {
        verdict.value: {"objects": counts.by_verdict[verdict], "bytes": counts.bytes_by_verdict[verdict]}
        for verdict in _WORDS
    }
    return {
        "root": checked.data.chunks.root,
        "objects": counts.objects,
        "named": counts.by_verdict[Verdict.NAMED],
        "checkpoints": counts.checkpoints,
        "longer": {
            "objects": sum(report.longer_chunks for report in reports),
            "bytes": sum(report.longer_bytes for report in reports),
        },
        **unnamed,
    }


def _summary(checked: Checked) -> str:
    found = _document(checked)
    parts = [f"{found['named']} named by rows"]
    longer = found["longer"]
    if longer["objects"]:
        parts[0] += f" ({longer['objects']} hold {longer['bytes']} bytes more than was committed)"
    for verdict, words in _WORDS.items():
        unnamed = found[verdict.value]
        if unnamed["objects"]:
            parts.append(f"{unnamed['objects']} {words} with {unnamed['bytes']} bytes")
    if found["checkpoints"]:
        parts.append(f"{found['checkpoints']} storage checkpoints")
    state = "clean" if not checked.damaged else "damaged"
    if state == "clean" and checked.strays.garbage:
        state = "nothing is damaged, only objects that nothing needs were found"
    if not all(report.complete for report in checked.reports):
        state = "not all of it could be checked"
    return f"{found['root']}: {found['objects']} objects: {', '.join(parts)}: {state}"
