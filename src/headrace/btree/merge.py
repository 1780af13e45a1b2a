"""A few changes to a leaf, spliced into a copy of its bytes."""

from __future__ import annotations

from headrace.btree.page_format import ABSENT_BYTES, HEADER_BYTES, VALUE_BYTES, Page
from headrace.btree.search import lower_slot


def merge_few(
    page: Page,
    count: int,
    keys: bytes,
    values: bytes,
    key_bytes: int,
    low: int,
    high: int,
    previous: bytearray,
) -> bytearray:
    """Return a copy of a leaf with keys ``low..high`` of a batch merged into it; its header is not changed.

    Args:
        page: with its header.
        count: entries in it.
        keys: of the batch, ascending.
        values: of the batch, as they are stored.
        key_bytes: bytes of a key.
        low: first key.
        high: behind the last key.
        previous: gets the values that the keys had, as they are stored.
    """
    stride = key_bytes + VALUE_BYTES
    changed = bytearray(page)
    behind = count
    for place in range(high - 1, low - 1, -1):  # backwards: a splice moves nothing that is still to be found
        key = keys[place * key_bytes : (place + 1) * key_bytes]
        value_at = place * VALUE_BYTES
        value = values[value_at : value_at + VALUE_BYTES]
        at = HEADER_BYTES + behind * stride
        before = page[at - stride : at - stride + key_bytes] if behind else b""
        if before >= key:  # not the place of the key above, as it is in a run of new keys
            behind = behind - 1 if before == key else lower_slot(page, key, stride, 0, behind - 1)
            at = HEADER_BYTES + behind * stride
        end = at + stride
        if page[at : at + key_bytes] == key:
            previous[value_at : value_at + VALUE_BYTES] = page[at + key_bytes : end]
            if value == ABSENT_BYTES:
                del changed[at:end]
            else:
                changed[at + key_bytes : end] = value
        elif value != ABSENT_BYTES:
            changed[at:at] = key + value
    return changed
