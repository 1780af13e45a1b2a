"""What may be done to a resource."""

from __future__ import annotations

from enum import IntEnum


class Permission(IntEnum):
    """Ordered: permission to update includes permission to read. The names are those of the users file."""

    NONE = 0
    READ = 1
    READ_UPDATE = 2
