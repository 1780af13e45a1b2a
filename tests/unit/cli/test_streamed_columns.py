from headrace.cli.streamed_columns import StreamedColumns


def test_a_short_table_is_aligned(capsys):
    table = StreamedColumns(("N", "NAME"))
    table.add(1, "a")
    table.add(22, None)
    table.close()
    assert capsys.readouterr().out == " N  NAME\n 1  a\n22  -\n"


def test_an_empty_table_is_its_titles(capsys):
    StreamedColumns(("N", "NAME")).close()
    assert capsys.readouterr().out == "N  NAME\n"


def test_a_long_table_is_printed_as_it_comes(capsys):
    table = StreamedColumns(("N", "NAME"))
    for number in range(199):
        table.add(number, "x")
    assert capsys.readouterr().out == ""
    table.add(199, "x")
    assert len(capsys.readouterr().out.splitlines()) == 201
    table.add(1_000_000, "x")
    table.add(1, "x")
    table.close()
    assert capsys.readouterr().out == "1000000  x\n      1  x\n"
