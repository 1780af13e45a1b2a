"""Calls to the owner of a segment that long-term storage refuses, on virtual time."""

import asyncio
from types import SimpleNamespace

import pytest

from headrace.client.control.tokens import Access
from headrace.client.owner_calls import OwnerCalls
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.client.segment_address import SegmentAddress
from headrace.errors import InvalidArgumentError, StorageReadRefusedError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.simulation import simulate
from headrace.wire.commands import ErrorMessage, GetStreamSegmentInfo, StreamSegmentInfo

NAME = "s/t/0.#epoch.0"


def ask(answer):
    """Ask for a segment's facts; ``answer`` makes a reply of the seconds since."""

    async def scenario():
        begin = asyncio.get_running_loop().time()

        async def nothing(*_):
            return ""

        async def call(endpoint, request, *, address):
            return answer(asyncio.get_running_loop().time() - begin)

        services = SimpleNamespace(
            tokens=SimpleNamespace(token=nothing),
            segments=SimpleNamespace(endpoint=nothing, forget_endpoint=lambda *_: None),
            pool=SimpleNamespace(call=call),
            entropy=SeededEntropy(1),
        )
        calls = OwnerCalls(services, ReconnectPolicy())
        address = SegmentAddress("s", "t", 0)
        make = lambda token: GetStreamSegmentInfo(0, NAME, token)  # noqa: E731
        return await calls.call(address, Access.READ, make, (StreamSegmentInfo,))

    return simulate(0, lambda _: scenario()).value


def refused(seconds):
    assert seconds < 11, "it gives up in time"
    return ErrorMessage(0, NAME, "the store denied permission", -1)


def test_a_refusal_that_stays_is_an_error_with_its_reason_after_some_seconds():
    with pytest.raises(StorageReadRefusedError, match="the store denied permission"):
        ask(refused)


def test_a_refusal_that_goes_away_is_not_noticed():
    info = StreamSegmentInfo(0, NAME, True, False, False, 0, 0, 0)
    assert ask(lambda seconds: refused(seconds) if seconds < 6 else info) == info


def test_an_illegal_argument_is_not_repeated():
    with pytest.raises(InvalidArgumentError, match="no such offset"):
        ask(lambda seconds: ErrorMessage(0, NAME, "no such offset", 0))
