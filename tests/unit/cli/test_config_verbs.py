"""Settings with where they come from, and all that is wrong with a file of them."""

import json

import pytest

from headrace.cli.config.setting_lines import find_lines
from headrace.cli.config.verbs import check_config, show_config
from headrace.errors import InvalidArgumentError

RIGHT = """\
data_dir = "/var/lib/x"   # a comment
"cache_bytes" = "1 GiB"

[container.optimiser]
mode = "off"
"""
WRONG = """\
bogus = 3
[container.storage]
rollover_bytes = -1
[ container . optimiser ]
mode = "sometimes"
second_bytes_max = "32 MiB"
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    for name in ("HEADRACE_DATA_DIR", "HEADRACE_URI"):
        monkeypatch.delenv(name, raising=False)

    def file(text):
        path = tmp_path / "headrace.toml"
        path.write_text(text)
        return str(path)

    return file


def test_lines_of_settings_and_sections_are_found():
    assert find_lines(RIGHT) == {
        "data_dir": 1,
        "cache_bytes": 2,
        "container.optimiser": 4,
        "container.optimiser.mode": 5,
    }
    assert find_lines("a.b = 1\n['c'.d]\ne=[\n1]\n") == {"a.b": 1, "c.d": 2, "c.d.e": 3}


def test_every_setting_is_shown_with_where_it_comes_from(file, capsys, monkeypatch):
    monkeypatch.setenv("HEADRACE_REST_PORT", "1234")
    monkeypatch.setenv("HEADRACE_CACHE_BYTES", "2 GiB")
    path = file(RIGHT)
    show_config(file=path, changed=False, as_json=True)
    found = {each["setting"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["data_dir"] == {"setting": "data_dir", "value": "/var/lib/x", "source": f"{path}:1"}
    assert found["cache_bytes"]["source"] == "HEADRACE_CACHE_BYTES", "the environment wins"
    assert found["cache_bytes"]["value"] == 2 << 30
    assert found["container.optimiser.mode"]["source"] == f"{path}:5"
    assert found["rest_port"]["value"] == 1234
    assert found["host"]["source"] == "default"
    show_config(file=path, changed=True, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        *("SETTING", "rest_port", "data_dir", "cache_bytes", "container.optimiser.mode")
    ]


def test_everything_that_is_wrong_with_a_file_is_said_with_its_line(file, capsys):
    path = file(WRONG)
    with pytest.raises(InvalidArgumentError, match="has 3 problems"):
        check_config(file=path, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{path}:1", f"{path}:3", f"{path}:5"]
    assert "unknown setting 'bogus'" in lines[0]
    with pytest.raises(InvalidArgumentError):
        check_config(file=path, as_json=True)
    assert [each["line"] for each in json.loads(capsys.readouterr().out)["problems"]] == [1, 3, 5]


def test_a_file_that_is_right_is_said_to_be_so(file, capsys):
    path = file(RIGHT)
    check_config(file=path, as_json=False)
    assert capsys.readouterr().out == f"{path} is right\n"


@pytest.mark.parametrize("text", ["a = ", "data_dir = ''"])
def test_a_file_that_is_no_toml_or_contradicts_itself_is_refused(file, text):
    with pytest.raises(InvalidArgumentError):
        check_config(file=file(text), as_json=False)
