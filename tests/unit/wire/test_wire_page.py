"""docs/formats/wire.md says what the code does."""

import dataclasses
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from headrace.wire import fields
from headrace.wire.catalogue import INTERNAL, PROTOCOL

FORMATS = Path(__file__).parents[3] / "docs" / "formats"
PAGE = (FORMATS / "wire.md").read_text()
PAGES = [(PROTOCOL, PAGE), (INTERNAL, (FORMATS / "internal-commands.md").read_text())]
of_both_pages = pytest.mark.parametrize(("lives", "page"), PAGES, ids=["protocol", "internal"])
GOLDEN = Path(__file__).parents[2] / "golden" / "wire" / "v17"
NAMES = {
    fields.Int8: "i8",
    fields.Int32: "i32",
    fields.Int64: "i64",
    fields.Bool: "bool",
    fields.Uuid: "uuid",
    fields.Text: "utf",
    fields.View: "bytes32",
    fields.Bytes: "bytes32",
    fields.Rest: "rest",
    fields.Event: "event",
    fields.TableKeys: "list of key",
    fields.TableEntries: "list of entry",
    fields.AttributeUpdates: "list of attribute update",
    fields.Versions: "list of i64",
    fields.Texts: "list of utf",
    fields.MergedSegments: "list of (utf, i64)",
    fields.FactsOfSegments: "list of facts",
    fields.SizedNames: "list of (utf, i64)",
    fields.ChunkInfos: "list of chunk",
}
DEFAULTS = {"": '""', b"": "empty"}


def declared(command):
    hints = get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        text = f"{field.name} {NAMES[hints[field.name]]}"
        if field.default_factory is not dataclasses.MISSING:
            text += " ?empty"
        elif field.default is not dataclasses.MISSING:
            text += " ?" + DEFAULTS.get(field.default, str(field.default).lower())
        yield text


@of_both_pages
def test_every_command_stands_on_its_page_with_its_fields(lives, page):
    for life in lives:
        direction = "both" if life.is_request and life.is_reply else "request" if life.is_request else "reply"
        layout = ", ".join(declared(life.command)) or "-"
        row = f"| {life.type_id} | {life.command.__name__} | {direction} | {life.since} | {layout} |"
        assert row in page, row
    assert len(re.findall(r"^\| -?\d+ \| \w+ \| (?:both|request|reply) \|", page, re.MULTILINE)) == len(lives)


@of_both_pages
def test_every_request_stands_on_its_page_with_its_replies(lives, page):
    for life in lives:
        if life.replies:
            success, *failures = (reply.__name__ for reply in life.replies)
            row = f"| {life.command.__name__} | {success} | {', '.join(failures) or '-'} |"
            assert row in page, row


def test_the_worked_example_is_the_golden_one():
    blocks = [
        bytes.fromhex(re.sub(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} {1,2})+).*", r"\1", b, flags=re.MULTILINE))
        for b in re.findall(r"```\n(0000.*?)```", PAGE, re.DOTALL)
    ]
    assert blocks == [
        (GOLDEN / f"{name}.bin").read_bytes() for name in ("append_block_partial", "append_block_end_partial")
    ]
