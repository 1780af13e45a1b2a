"""The stream with which controllers ask each other for work is not for others to change."""

import grpc
import pytest

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.calls import info, refused
from tests.unit.controller.conftest import stream_config

REQUESTS = info("_requeststream", "_system")


@pytest.mark.parametrize("call", ["sealStream", "deleteStream"])
async def test_it_is_neither_sealed_nor_deleted(service, call):
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await getattr(service.stub, call)(REQUESTS)
    assert len(await service.current("_requeststream", "_system")) == service.controller.context.buckets.count


async def test_it_is_neither_updated_nor_truncated(service):
    before = await service.current("_requeststream", "_system")
    config = stream_config("_requeststream", 7, "_system")
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await service.stub.updateStream(config)
    cut = pb.StreamCut(streamInfo=REQUESTS, cut={0: 0, 1: 0})
    assert (await service.stub.truncateStream(cut)).status == pb.UpdateStreamStatus.FAILURE
    scale = pb.ScaleRequest(
        streamInfo=REQUESTS,
        sealedSegments=[0],
        newKeyRanges=[pb.ScaleRequest.KeyRangeEntry(start=before[0][1], end=before[0][2])],
    )
    assert (await service.stub.scale(scale)).status == pb.ScaleResponse.FAILURE
    assert await service.current("_requeststream", "_system") == before
