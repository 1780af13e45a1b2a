"""Key-value tables: create, describe, list, remove. Answers become booleans and typed errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from headrace.client.control.controller import Controller
from headrace.client.iterators import Each, Items
from headrace.client.segment_map import SegmentRange
from headrace.errors import KeyValueTableExistsError, NoSuchKeyValueTableError, NoSuchStreamError
from headrace.model.key_value_table import KeyValueTableConfiguration
from headrace.model.names import check_user_name
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb


class KeyValueTables:
    """The calls about key-value tables."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def create(self, scope: str, table: str, configuration: KeyValueTableConfiguration) -> bool:
        """Create a table; False if it exists already (its configuration stays).

        Raises:
            NoSuchScopeError: the scope does not exist.
            InvalidArgumentError: the server has lower limits than the configuration.
        """
        check_user_name(table, "key-value table")
        message = convert.table_config_to_message(scope, table, configuration)
        try:
            await self._controller.call("createKeyValueTable", message)
        except KeyValueTableExistsError:
            return False
        return True

    async def configuration(self, scope: str, table: str) -> KeyValueTableConfiguration:
        """Return what a table was created with. Raises NoSuchKeyValueTableError."""
        request = pb.KeyValueTableInfo(scope=scope, kvtName=table)
        reply = await self._controller.call("getKeyValueTableConfiguration", request)
        return convert.table_config_from_message(reply.config)

    async def partitions(self, scope: str, table: str) -> list[SegmentRange]:
        """Return the segments of a table with their key ranges. Raises NoSuchKeyValueTableError."""
        request = pb.KeyValueTableInfo(scope=scope, kvtName=table)
        try:
            reply = await self._controller.call("getCurrentSegmentsKeyValueTable", request)
        except NoSuchStreamError as error:  # a controller that does not say what is missing
            raise NoSuchKeyValueTableError(f"key-value table {scope}/{table} does not exist") from error
        return [SegmentRange(*convert.segment_range_from_message(each)) for each in reply.segmentRanges]

    def list(self, scope: str) -> AsyncIterator[str]:
        """Iterate over the tables of a scope, page by page. Raises NoSuchScopeError."""
        token = pb.ContinuationToken()

        async def next_page() -> Sequence[str] | None:
            nonlocal token
            request = pb.KVTablesInScopeRequest(scope=pb.ScopeInfo(scope=scope), continuationToken=token)
            reply = await self._controller.call("listKeyValueTablesInScope", request)
            if not reply.kvtables:
                return None
            token = reply.continuationToken
            return [each.kvtName for each in reply.kvtables]

        return Items(Each(next_page))

    async def delete(self, scope: str, table: str) -> bool:
        """Remove a table with all its entries; False if there is none."""
        try:
            await self._controller.call(
                "deleteKeyValueTable", pb.KeyValueTableInfo(scope=scope, kvtName=table)
            )
        except NoSuchKeyValueTableError:
            return False
        return True
