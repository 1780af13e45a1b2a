"""Keys and metadata of objects that exist stay what they are."""

import pytest

from headrace.storage.providers.objects.keys import ObjectKeys

LONG = "ü" * 400
LONG_KEY = "%long/9e688befcfefb604c973c562161b1766040d2b576e5c52fe660be91c72776c5f.chunk"


@pytest.mark.parametrize(
    ("prefix", "name", "key"),
    [
        ("", "s/t/0.#epoch.0.5.E-3-O-100.0123abcd", "s/t/0.#epoch.0.5.E-3-O-100.0123abcd.chunk"),
        ("logs/a", "_system/x", "logs/a/_system/x.chunk"),
        ("logs/a", "..", "logs/a/%2E..chunk"),
        ("", LONG, LONG_KEY),
        ("p", LONG, f"p/{LONG_KEY}"),
    ],
)
def test_a_name_has_the_key_it_always_had(prefix, name, key):
    assert ObjectKeys.below(prefix).key_of(name) == key


def test_an_object_has_the_metadata_it_always_had():
    keys = ObjectKeys.below("p")
    assert keys.metadata_of("c", "p/c.chunk", "00ff") == {"headracewrite": "00ff"}
    metadata = keys.metadata_of(LONG, f"p/{LONG_KEY}", "00ff")
    assert metadata == {"headracewrite": "00ff", "headracename": "w7zDvMO8" * 133 + "w7w="}
    assert keys.name_in(metadata, f"p/{LONG_KEY}") == LONG
