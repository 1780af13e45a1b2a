"""What ``headrace inspect tree`` prints: the attribute index of a segment, in storage."""

from __future__ import annotations

from dataclasses import asdict

from headrace.btree.check import check
from headrace.btree.drawing import render
from headrace.cli.inspect.container import find_segments
from headrace.cli.inspect.data import open_data
from headrace.cli.output import print_json, print_line
from headrace.segmentstore.inspection.index_pages import IndexPages


def inspect_tree(*, name: str, data_dir: str, checks: bool, as_json: bool) -> None:
    """Draw the index of each segment of that name; ``--check`` proves every page of it first."""
    data = open_data(data_dir)
    replayed, found = find_segments(data, name)
    for state in found:
        pages = IndexPages(state.index_storage_name, replayed.storage_row, data.chunks)
        root = pages.root()
        checked = None if root is None or not checks else pages.run(check(root))
        if as_json:
            document = {} if root is None else asdict(root) | {"note": root.note.hex()}
            print_json({"segment": state.name, "segment_id": state.segment_id, "index": document or None})
            continue
        if root is None:
            print_line(f"segment {state.name} has no index: all of its attributes are in the log")
            continue
        print_line(pages.run(render(root)).rstrip("\n"))
        if checked is not None:
            print_line(f"checked: {checked.pages} pages, {checked.entries} entries")
