"""Fixtures of the tests of stores."""

import pytest


@pytest.fixture
def quick_pauses(monkeypatch):
    """Nothing waits between attempts."""
    monkeypatch.setattr("headrace.storage.providers.object_creation.PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr("headrace.storage.providers.retrying.PAUSES_S", (0.0, 0.0))
