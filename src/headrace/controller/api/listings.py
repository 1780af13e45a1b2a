"""Pages of listings hold what their caller may read. Pure.

Clients end a listing at the first page without entries, whatever its token says: a page of which nothing is
left is not for them, but the next one.

Source: protocol, "Authorization model", "Pagination".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.security.access import Caller, may_read
from headrace.security.resources import scope_resource, stream_resource, table_resource


@dataclass(frozen=True, slots=True)
class Listing:
    """One call that lists: the field of its replies with the entries, and the resource of an entry."""

    entries: str
    resource: Callable[[Any], str]

    def keep_readable(self, reply: Any, caller: Caller) -> bool:
        """Remove from the page what ``caller`` may not read; return whether the listing goes on behind a
        page of which nothing is left.
        """
        entries = getattr(reply, self.entries)
        kept = [entry for entry in entries if may_read(caller, self.resource(entry))]
        goes_on = bool(entries) and not kept
        if len(kept) < len(entries):
            del entries[:]
            entries.extend(kept)
        return goes_on


_STREAMS: Final = Listing("streams", lambda info: stream_resource(info.scope, info.stream))

LISTINGS: Final[Mapping[str, Listing]] = {
    "list_scopes": Listing("scopes", scope_resource),
    "list_streams_in_scope": _STREAMS,
    "list_streams_in_scope_for_tag": _STREAMS,
    "list_key_value_tables_in_scope": Listing(
        "kvtables", lambda info: table_resource(info.scope, info.kvtName)
    ),
}
"""By call, in snake case. Requests and replies carry ``continuationToken``."""
