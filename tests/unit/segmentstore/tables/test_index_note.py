import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.tables.index_note import IndexNote, decode_note, encode_note


def test_a_note_gives_back_what_was_written():
    note = IndexNote(index_end=0x0102030405, live_bytes=77)
    assert encode_note(note).hex() == "01" + "0000000102030405" + "000000000000004d"
    assert decode_note(encode_note(note), "t") == note
    assert decode_note(b"", "t") is None


@pytest.mark.parametrize("data", [b"\x01", b"\x02" + bytes(16), bytes(17), b"\x01" + bytes(17)])
def test_other_bytes_are_no_note(data):
    with pytest.raises(DataCorruptionError):
        decode_note(data, "t")
