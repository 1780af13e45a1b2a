"""The retention sets of streams: tail cuts of the past, each in a row of its own, and a row that lists them.

One update changes the list and its cuts under the version of the list, so that of two controllers that change
a set at once one reads it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import details_table, retention_cut_key, retention_key
from headrace.controller.store.rows.retention_row import (
    RetentionRow,
    decode_retention,
    decode_retention_cut,
    encode_retention,
    encode_retention_cut,
)
from headrace.controller.streams.cuts import sorted_cut


@dataclass(frozen=True, slots=True)
class SetMember:
    """A tail cut of the set: when it was taken, and the bytes of the stream up to it."""

    time_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RetentionSet:
    """The members, oldest first, under the version they were read with."""

    members: tuple[SetMember, ...]
    version: int


class RetentionSets:
    """Reads and writes sets. Used on the controller's loop."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, uid: bytes) -> RetentionSet:
        found = await self._store.get(details_table(uid), retention_key(uid))
        if found is None:
            return RetentionSet((), ABSENT)
        members = decode_retention(found.value).members
        return RetentionSet(tuple(SetMember(*member) for member in members), found.version)

    async def find_cut(self, uid: bytes, member: SetMember) -> dict[int, int] | None:
        """Return the cut of a member; None: it was dropped since the set was read."""
        found = await self._store.get(details_table(uid), retention_cut_key(uid, member.time_ms))
        return None if found is None else dict(decode_retention_cut(found.value))

    async def write(
        self,
        uid: bytes,
        present: RetentionSet,
        members: Sequence[SetMember],
        added: Mapping[SetMember, Mapping[int, int]],
    ) -> RetentionSet:
        """Replace ``present`` by ``members``, some of which are ``added`` with their cuts.

        Raises:
            MetadataConflictError: the set has changed since it was read.
        """
        remaining = set(members)
        row = RetentionRow(tuple((member.time_ms, member.size_bytes) for member in members))
        writes = [Write(retention_key(uid), encode_retention(row), present.version)]
        for member, cut in added.items():
            value = encode_retention_cut(sorted_cut(cut))
            writes.append(Write(retention_cut_key(uid, member.time_ms), value))
        dropped = [member for member in present.members if member not in remaining]
        writes += [Write(retention_cut_key(uid, member.time_ms), None) for member in dropped]
        versions = await self._store.update(details_table(uid), writes)
        return RetentionSet(tuple(members), versions[0])

    async def keys(self, uid: bytes) -> list[bytes]:
        """Return the keys of all rows of a set, that of the list last."""
        members = (await self.read(uid)).members
        return [*(retention_cut_key(uid, member.time_ms) for member in members), retention_key(uid)]
