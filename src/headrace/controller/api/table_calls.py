"""The calls about key-value tables. Source: protocol, "Key-value tables"."""

from __future__ import annotations

from headrace.controller.api.answers import token_from_text, token_to_text
from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.table_row import TableRow, TableState
from headrace.controller.workflows.key_value_tables import KeyValueTables, check_table, partition_ids
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.names import check_user_name
from headrace.rpc.convert import segment_range_to_message
from headrace.rpc.generated import controller_pb2 as pb


class KeyValueTableCalls:
    def __init__(self, context: ControllerContext, tables: KeyValueTables) -> None:
        self._context = context
        self._tables = tables

    async def create_key_value_table(self, request: pb.KeyValueTableConfig) -> pb.CreateKeyValueTableStatus:
        check_user_name(request.kvtName, "key-value table")
        numbers = (request.partitionCount, request.primaryKeyLength, request.secondaryKeyLength)
        check_table(*numbers, request.rolloverSizeBytes)
        wanted = TableRow(0, TableState.CREATING, 0, *numbers, request.rolloverSizeBytes)
        await self._tables.create(request.scope, request.kvtName, wanted)
        return pb.CreateKeyValueTableStatus()

    async def get_current_segments_key_value_table(self, request: pb.KeyValueTableInfo) -> pb.SegmentRanges:
        """Segments are reported with the bare name of the table; the data plane knows them by a longer
        one.
        """
        table = await self._tables.get(request.scope, request.kvtName)
        ids = partition_ids(table.row)
        return pb.SegmentRanges(
            segmentRanges=[
                segment_range_to_message(request.scope, request.kvtName, segment_id, key_range)
                for segment_id, key_range in zip(ids, split_evenly(FULL_RANGE, len(ids)), strict=True)
            ]
        )

    async def get_key_value_table_configuration(
        self, request: pb.KeyValueTableInfo
    ) -> pb.KeyValueTableConfigResponse:
        row = (await self._tables.get(request.scope, request.kvtName)).row
        return pb.KeyValueTableConfigResponse(
            config=pb.KeyValueTableConfig(
                scope=request.scope,
                kvtName=request.kvtName,
                partitionCount=row.partitions,
                primaryKeyLength=row.primary_key_bytes,
                secondaryKeyLength=row.secondary_key_bytes,
                rolloverSizeBytes=row.rollover_bytes,
            )
        )

    async def list_key_value_tables_in_scope(
        self, request: pb.KVTablesInScopeRequest
    ) -> pb.KVTablesInScopeResponse:
        scope, token = request.scope.scope, token_from_text(request.continuationToken.token)
        tables, token = await self._tables.rows.page(scope, token, self._context.config.page_rows_max)
        return pb.KVTablesInScopeResponse(
            kvtables=[pb.KeyValueTableInfo(scope=scope, kvtName=table.name) for table in tables],
            continuationToken=pb.ContinuationToken(token=token_to_text(token)),
        )

    async def delete_key_value_table(self, request: pb.KeyValueTableInfo) -> pb.DeleteKVTableStatus:
        await self._tables.delete(request.scope, request.kvtName)
        return pb.DeleteKVTableStatus()
