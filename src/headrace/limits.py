"""Bounds that two packages must agree on, with the relations between them."""

from __future__ import annotations

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30

# ---- wire (protocol: section 1.3)
WIRE_FRAME_BYTES_MAX: Final = 0x00FF_FFFF  # with the 8-byte header
WIRE_PAYLOAD_BYTES_MAX: Final = 0x00FF_FFFF
WIRE_STRING_BYTES_MAX: Final = 0xFFFF
LIST_COUNT_MAX: Final = 65_536  # of keys, entries, updates or names in one frame; clients send 256
MERGE_SOURCES_MAX: Final = 10_000  # of one batch of merges
BULK_NAMES_MAX: Final = 1000  # of segments that one call of the controller is about
READ_BYTES_MAX: Final = 2 * MIB
READ_BYTES_MIN: Final = 8

# ---- events
EVENT_HEADER_BYTES: Final = 8
EVENT_BYTES_MAX: Final = 8 * MIB
APPEND_BYTES_MAX: Final = WIRE_FRAME_BYTES_MAX

# ---- tables
TABLE_KEY_BYTES_MAX: Final = 8 * KIB
TABLE_ENTRY_BYTES_MAX: Final = 1 * MIB
TABLE_VALUE_BYTES_MAX: Final = TABLE_ENTRY_BYTES_MAX - TABLE_KEY_BYTES_MAX
TABLE_BATCH_BYTES_MAX: Final = 32 * MIB
TABLE_UPDATE_COUNT_MAX: Final = 256  # of keys in one request of a client
TABLE_UPDATE_BYTES_MAX: Final = WIRE_PAYLOAD_BYTES_MAX - 8 * KIB  # of its keys and values, with their lengths
TABLE_ITEM_BYTES: Final = 20  # what an entry takes in an answer besides its key and its value
FIXED_KEY_BYTES_MAX: Final = 256

# ---- containers
CONTAINERS_MAX: Final = 1024  # of a system, alone or in a cluster

# ---- names
NAME_CHARS_MAX: Final = 255
USER_NAME_CHARS_MAX: Final = 250

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

# A single legal event with its header has to fit into one wire frame.
assert EVENT_BYTES_MAX + EVENT_HEADER_BYTES < WIRE_FRAME_BYTES_MAX
