"""The calls about controllers. Source: protocol, "Cluster", "Buckets of background services"."""

from __future__ import annotations

from headrace.model.endpoint import Endpoint
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb

_BUCKETS = {
    pb.ControllerToBucketMappingRequest.RetentionService: 1,
    pb.ControllerToBucketMappingRequest.WatermarkingService: 100,
}


class ClusterCalls:
    """One controller: it is the whole cluster and owns every bucket."""

    def __init__(self, published: Endpoint) -> None:
        self.published = published
        """Where clients find this controller."""

    async def get_controller_server_list(self, request: pb.ServerRequest) -> pb.ServerResponse:  # noqa: ARG002
        return pb.ServerResponse(nodeURI=[convert.endpoint_to_message(self.published)])

    async def get_controller_to_bucket_mapping(
        self, request: pb.ControllerToBucketMappingRequest
    ) -> pb.ControllerToBucketMappingResponse:
        count = _BUCKETS.get(request.serviceType, 0)
        buckets = pb.BucketIds(id=range(count))
        return pb.ControllerToBucketMappingResponse(mapping={str(self.published): buckets})
