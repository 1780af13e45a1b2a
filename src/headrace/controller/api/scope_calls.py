"""The calls about scopes. Source: protocol, "Scopes"."""

from __future__ import annotations

from headrace.controller.api.answers import token_from_text, token_to_text
from headrace.controller.context import ControllerContext
from headrace.controller.workflows.delete_scope import ScopeDeletion
from headrace.rpc.generated import controller_pb2 as pb


class ScopeCalls:
    def __init__(self, context: ControllerContext, deletion: ScopeDeletion) -> None:
        self._context = context
        self._deletion = deletion

    async def create_scope(self, request: pb.ScopeInfo) -> pb.CreateScopeStatus:
        await self._context.scopes.create(request.scope)
        return pb.CreateScopeStatus()

    async def check_scope_exists(self, request: pb.ScopeInfo) -> pb.ExistsResponse:
        return pb.ExistsResponse(exists=await self._context.scopes.find(request.scope) is not None)

    async def list_scopes(self, request: pb.ScopesRequest) -> pb.ScopesResponse:
        token = token_from_text(request.continuationToken.token)
        names, token = await self._context.scopes.names(token, self._context.config.page_rows_max)
        return pb.ScopesResponse(
            scopes=names, continuationToken=pb.ContinuationToken(token=token_to_text(token))
        )

    async def delete_scope(self, request: pb.ScopeInfo) -> pb.DeleteScopeStatus:
        await self._context.scopes.delete(request.scope)
        return pb.DeleteScopeStatus()

    async def delete_scope_recursive(self, request: pb.ScopeInfo) -> pb.DeleteScopeStatus:
        await self._deletion.delete(request.scope)
        return pb.DeleteScopeStatus()
