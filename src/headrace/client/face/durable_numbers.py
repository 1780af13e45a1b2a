"""What earlier processes of a writer have made durable, asked for when it is opened."""

from __future__ import annotations

from headrace.client.reader.cuts import Cuts
from headrace.client.segment_calls import SegmentCalls
from headrace.client.segment_map import SegmentMap
from headrace.client.services import ClientServices
from headrace.client.writer.named_writer import find_numbers
from headrace.client.writer.numbers import DurableNumbers


async def find_durable_numbers(
    cuts: Cuts,
    services: ClientServices,
    calls: SegmentCalls,
    scope: str,
    stream: str,
    segments: SegmentMap,
    name: str,
) -> DurableNumbers:
    """Ask all segments that a stream still has for the last number of a writer."""
    head = await cuts.head(scope, stream)
    former = [
        each
        for each in await services.segments.between(scope, stream, head.offsets, {})
        if each not in segments
    ]
    ranges = {each: segments.range_of(each) for each in segments.segments()}
    ranges |= await cuts.ranges(scope, stream, former)
    return DurableNumbers(await find_numbers(calls, scope, stream, ranges, name))
