"""The calls about key-value tables. Source: protocol, "Key-value tables"."""

from __future__ import annotations

from headrace.controller.api.answers import answer, token_from_text, token_to_text
from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.table_row import TableRow, TableState
from headrace.controller.workflows.key_value_tables import KeyValueTables, check_table, partition_ids
from headrace.errors import (
    InvalidArgumentError,
    KeyValueTableExistsError,
    NoSuchKeyValueTableError,
    NoSuchScopeError,
)
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.names import check_user_name
from headrace.rpc.convert import segment_range_to_message
from headrace.rpc.generated import controller_pb2 as pb


class KeyValueTableCalls:
    def __init__(self, context: ControllerContext, tables: KeyValueTables) -> None:
        self._context = context
        self._tables = tables

    async def create_key_value_table(self, request: pb.KeyValueTableConfig) -> pb.CreateKeyValueTableStatus:
        try:
            check_user_name(request.kvtName, "key-value table")
        except InvalidArgumentError:
            return pb.CreateKeyValueTableStatus(status=pb.CreateKeyValueTableStatus.INVALID_TABLE_NAME)
        numbers = (request.partitionCount, request.primaryKeyLength, request.secondaryKeyLength)
        check_table(*numbers, request.rolloverSizeBytes)
        wanted = TableRow(0, TableState.CREATING, 0, *numbers, request.rolloverSizeBytes)
        status = await answer(
            self._tables.create(request.scope, request.kvtName, wanted),
            pb.CreateKeyValueTableStatus.SUCCESS,
            {
                KeyValueTableExistsError: pb.CreateKeyValueTableStatus.TABLE_EXISTS,
                NoSuchScopeError: pb.CreateKeyValueTableStatus.SCOPE_NOT_FOUND,
            },
        )
        return pb.CreateKeyValueTableStatus(status=status)

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
        try:
            row = (await self._tables.get(request.scope, request.kvtName)).row
        except NoSuchKeyValueTableError:
            return pb.KeyValueTableConfigResponse(status=pb.KeyValueTableConfigResponse.TABLE_NOT_FOUND)
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
        try:
            tables, token = await self._tables.rows.page(scope, token, self._context.config.page_rows_max)
        except NoSuchScopeError:
            return pb.KVTablesInScopeResponse(
                status=pb.KVTablesInScopeResponse.SCOPE_NOT_FOUND,
                continuationToken=pb.ContinuationToken(token=token_to_text(token)),
            )
        return pb.KVTablesInScopeResponse(
            kvtables=[pb.KeyValueTableInfo(scope=scope, kvtName=table.name) for table in tables],
            continuationToken=pb.ContinuationToken(token=token_to_text(token)),
        )

    async def delete_key_value_table(self, request: pb.KeyValueTableInfo) -> pb.DeleteKVTableStatus:
        status = await answer(
            self._tables.delete(request.scope, request.kvtName),
            pb.DeleteKVTableStatus.SUCCESS,
            {NoSuchKeyValueTableError: pb.DeleteKVTableStatus.TABLE_NOT_FOUND},
        )
        return pb.DeleteKVTableStatus(status=status)
