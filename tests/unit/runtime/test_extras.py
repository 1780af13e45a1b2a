"""What is not installed is named with the extra that brings it."""

import sys

import pytest

from headrace.errors import UnsupportedError
from headrace.runtime.extras import require


def test_what_is_there_is_not_imported():
    require("a test", "dev", "json", "this")
    assert "this" not in sys.modules  # it would print


def test_what_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(UnsupportedError) as caught:
        require("a test", "arrow", "json", "numpy", "no_such_module")
    assert str(caught.value) == (
        "a test needs numpy and no_such_module, not installed for this Python: pip install 'headrace[arrow]'"
    )
