"""Names of what permissions are about. Pure.

Internal streams are checked under what they serve: ``_RG<x>`` as reader group ``<x>``, ``_MARK<x>`` as stream
``<x>``, ``<x>_kvtable`` as key-value table ``<x>``.

Source: protocol, "Authorization model".
"""

from __future__ import annotations

from typing import Final

from headrace.model.names import MARK_PREFIX, READER_GROUP_PREFIX, TABLE_SUFFIX

ROOT: Final = "prn::/"


def scope_resource(scope: str) -> str:
    return f"prn::/scope:{scope}"


def stream_resource(scope: str, stream: str) -> str:
    if stream.startswith(READER_GROUP_PREFIX):
        return group_resource(scope, stream.removeprefix(READER_GROUP_PREFIX))
    if stream.endswith(TABLE_SUFFIX):
        return table_resource(scope, stream.removesuffix(TABLE_SUFFIX))
    return f"prn::/scope:{scope}/stream:{stream.removeprefix(MARK_PREFIX)}"


def group_resource(scope: str, group: str) -> str:
    return f"prn::/scope:{scope}/reader-group:{group}"


def table_resource(scope: str, table: str) -> str:
    return f"prn::/scope:{scope}/key-value-table:{table}"
