"""The calls about controllers and the whole cluster. Source: protocol, "Cluster", "Buckets of background
services"; the last one is of our own.
"""

from __future__ import annotations

import json

from headrace.cluster.facts_store import find_facts
from headrace.cluster.status import document_of
from headrace.controller.buckets.cluster_look import look
from headrace.controller.buckets.ownership import Buckets
from headrace.errors import PreconditionError
from headrace.rpc import convert
from headrace.rpc.generated import cluster_status_pb2 as sb
from headrace.rpc.generated import controller_pb2 as pb

_SERVICES = {
    pb.ControllerToBucketMappingRequest.RetentionService,
    pb.ControllerToBucketMappingRequest.WatermarkingService,
}


class ClusterCalls:
    """Who is alive, and whose the buckets are: the same for every background service."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    async def get_controller_server_list(self, request: pb.ServerRequest) -> pb.ServerResponse:  # noqa: ARG002
        endpoints = await self._buckets.endpoints()
        return pb.ServerResponse(nodeURI=[convert.endpoint_to_message(endpoint) for endpoint in endpoints])

    async def get_controller_to_bucket_mapping(
        self, request: pb.ControllerToBucketMappingRequest
    ) -> pb.ControllerToBucketMappingResponse:
        if request.serviceType not in _SERVICES:
            return pb.ControllerToBucketMappingResponse()
        mapping = await self._buckets.mapping()
        return pb.ControllerToBucketMappingResponse(
            mapping={str(endpoint): pb.BucketIds(id=buckets) for endpoint, buckets in mapping.items()}
        )

    async def get_cluster_status(self, request: sb.GetClusterStatusRequest) -> sb.GetClusterStatusResponse:  # noqa: ARG002
        session = self._buckets.session
        if await find_facts(session) is None:
            raise PreconditionError("this server is no cluster: `headrace status --rest` says how it is")
        return sb.GetClusterStatusResponse(document=json.dumps(document_of(await look(session))))
