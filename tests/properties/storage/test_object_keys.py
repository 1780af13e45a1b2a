"""Keys of objects: every name has one, which gives it back and is listed by any prefix of the name."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.storage.providers.contract import CHUNK_NAME_BYTES_MAX
from headrace.storage.providers.objects.keys import KEY_BYTES_MAX, ObjectKeys
from headrace.testing.conformance.chunk_provider import ODD_NAMES
from tests.effort import examples


def fits(name):
    return 0 < len(name.encode("utf-8", "surrogatepass")) <= CHUNK_NAME_BYTES_MAX


PIECES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["/", ".", "a", "%", "%empty", ".chunk", "PRESENT", "%long", "PRESENT.chunk", "x" * 199]),
    st.integers(190, 210).map(lambda length: "y" * length),
)
NAMES = st.lists(PIECES, min_size=1, max_size=12).map("".join).filter(fits) | st.sampled_from(ODD_NAMES)
PREFIXES = st.sampled_from(["", "p", "a/b", "x" * 200])


@given(NAMES, PREFIXES)
@example("%" * CHUNK_NAME_BYTES_MAX, "p")
@example("y" * CHUNK_NAME_BYTES_MAX, "")
@settings(max_examples=examples(300))
def test_a_key_is_short_and_gives_the_name_back(name, prefix):
    keys = ObjectKeys.below(prefix)
    key = keys.key_of(name)
    assert len(key.encode()) <= KEY_BYTES_MAX
    assert key.isascii()
    assert key.isprintable()
    parts = key[len(keys.prefix) :].split("/")
    assert all(0 < len(part) <= 206 and part not in {".", ".."} for part in parts)
    metadata = keys.metadata_of(name, key, "id")
    assert sum(len(word) + len(value) for word, value in metadata.items()) <= 2048
    if keys.is_hashed(key):
        assert keys.name_of(key) is None
        assert keys.name_in(metadata, key) == name
    else:
        assert keys.name_of(key) == name


@given(NAMES, NAMES, PREFIXES)
@example("a", "a.chunk/b", "")
@example("PRESENT", "PRESENT/b", "")
@settings(max_examples=examples(300))
def test_no_key_is_another_or_its_folder(one, other, prefix):
    keys = ObjectKeys.below(prefix)
    if one == other:
        return
    first, second = keys.key_of(one), keys.key_of(other)
    assert first != second
    assert not second.startswith(first + "/")


@given(NAMES, st.integers(0, CHUNK_NAME_BYTES_MAX), PREFIXES)
@example("/x", 1, "")
@example("/x", 2, "")
@example("PRESENT/x", 7, "")
@example("x.chunk/y", 7, "")
@settings(max_examples=examples(500))
def test_a_list_by_any_prefix_of_a_name_sees_its_key_once(name, length, prefix):
    keys = ObjectKeys.below(prefix)
    key = keys.key_of(name)
    seen = [listed for listed in keys.listed_prefixes(name[:length]) if key.startswith(listed)]
    assert len(seen) == 1


@given(st.text(), st.dictionaries(st.just("headracename"), st.text()))
def test_a_key_that_is_not_ours_has_no_name(text, metadata):
    keys = ObjectKeys.below("p")
    name = keys.name_of(text)
    assert name is None or keys.key_of(name) == text
    name = keys.name_in(metadata, text)
    assert name is None or keys.key_of(name) == text
