"""The calls about controllers. Source: protocol, "Cluster", "Buckets of background services"."""

from __future__ import annotations

from headrace.controller.buckets.ownership import Buckets
from headrace.rpc import convert
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
