from headrace.cli.output import print_columns, print_fields, print_json
from headrace.cli.streamed_columns import StreamedColumns
from headrace.model.policy_words import duration_text, size_text
from headrace.model.quantities import parse_bytes, parse_duration_ms


def test_columns_are_aligned_numbers_to_the_right(capsys):
    print_columns(["id", "name", "share"], [[7, "a", 0.5], [12345, "longer", 1 / 3]])
    assert capsys.readouterr().out == (
        "   id  name       share\n"
        "    7  a            0.5\n"
        "12345  longer  0.333333\n"
    )  # fmt: skip


def test_columns_without_rows_are_their_titles(capsys):
    print_columns(["id", "name"], [])
    assert capsys.readouterr().out == "id  name\n"


def test_fields_name_what_is_missing_and_what_is_true(capsys):
    print_fields([("sealed", True), ("tags", None), ("empty", False)])
    assert capsys.readouterr().out == "sealed  yes\ntags    -\nempty   no\n"


def test_json_is_one_line(capsys):
    print_json({"a": [1, "x\ny"]})
    assert capsys.readouterr().out == '{"a": [1, "x\\ny"]}\n'


def test_sizes_and_durations_are_printed_as_they_may_be_typed():
    for milliseconds in (0, 1, 999, 1000, 90_000, 3_600_000, 86_400_000, 7 * 86_400_000, 86_400_001):
        assert parse_duration_ms(duration_text(milliseconds)) == milliseconds
    for size in (0, 1, 1023, 1024, 1536, 1 << 20, 3 << 30, 5 << 40, (1 << 40) + 1):
        assert parse_bytes(size_text(size)) == size
    assert duration_text(7 * 86_400_000) == "7 d"
    assert size_text(100 << 30) == "100 GiB"


def test_a_name_steers_no_terminal_and_makes_no_line(capsys):
    name = "demo/\x1b[2J\ncontainer 0: clean/ä"
    print_fields([("segment", name)])
    print_columns(["NAME"], [[name]])
    table = StreamedColumns(("NAME",))
    table.add(name)
    table.close()
    shown = r"demo/\x1b[2J\ncontainer 0: clean/ä"
    assert capsys.readouterr().out == f"segment  {shown}\nNAME\n{shown}\nNAME\n{shown}\n"
