"""The table of what each call needs, against the protocol's."""

import pytest
from google.protobuf.message_factory import GetMessageClass

from headrace.controller.api.auth import make_rules
from headrace.controller.api.call_front import snake_case
from headrace.controller.api.listings import LISTINGS
from headrace.rpc.generated import controller_pb2 as pb
from headrace.security.access import INTERNAL, NOTHING
from headrace.security.permission import Permission
from headrace.security.resources import ROOT
from tests.unit.controller.api.extreme_requests import METHODS, valid_request
from tests.unit.controller.calls import info

READ, UPDATE = Permission.READ, Permission.READ_UPDATE
RULES = make_rules()
STRICT = make_rules(readers_manage_groups=False)
SCOPE, STREAM, TABLE = "prn::/scope:s", "prn::/scope:s/stream:t", "prn::/scope:s/key-value-table:k"
GROUP = "prn::/scope:s/reader-group:g"

TABLE_OF_THE_PROTOCOL = {
    (ROOT, UPDATE): """createScope deleteScope deleteScopeRecursive getControllerToBucketMapping
        getClusterStatus""",
    (ROOT, READ): "listScopes",
    (SCOPE, READ): """checkScopeExists listStreamsInScope listStreamsInScopeForTag listKeyValueTablesInScope
        getReaderGroupConfig createReaderGroup updateReaderGroup deleteReaderGroup""",
    (SCOPE, UPDATE): "createStream createKeyValueTable",
    (TABLE, UPDATE): "deleteKeyValueTable getCurrentSegmentsKeyValueTable",
    (TABLE, READ): "getKeyValueTableConfiguration",
    (STREAM, UPDATE): """updateStream truncateStream sealStream deleteStream scale getEpochSegments
        createTransaction commitTransaction abortTransaction pingTransaction listSubscribers
        updateSubscriberStreamCut noteTimestampFromWriter removeWriter getCurrentSegments getSegments
        createTaggedTransaction commitTransactionBatch abortTransactionBatch truncateAnyStream""",
    (STREAM, READ): """checkStreamExists getStreamConfiguration getSegmentsImmediatelyFollowing
        getSegmentsImmediatlyFollowing getSegmentsBetween checkScale getURI isSegmentValid isStreamCutValid
        checkTransactionState listCompletedTransactions getSinkWatermark getCutAt""",
}

INTERNAL_CALLS = ("reportLoads", "waitStream", "waitTransactions")


def need_of(rules, call, request):
    need = rules[call](request)
    return need.permission, need.resources


def test_every_call_has_its_rule():
    assert {snake_case(name) for name in METHODS} == set(RULES) == set(STRICT)


def test_calls_need_what_the_protocol_says():
    seen = {"getControllerServerList", "getDelegationToken", *INTERNAL_CALLS}
    for (resource, permission), names in TABLE_OF_THE_PROTOCOL.items():
        for name in names.split():
            request = valid_request(name, pb.TxnId())
            assert need_of(RULES, snake_case(name), request) == (permission, (resource,)), name
            seen.add(name)
    assert seen == set(METHODS)
    assert RULES["get_controller_server_list"](pb.ServerRequest()) is NOTHING
    assert all(RULES[snake_case(name)](None) is INTERNAL for name in INTERNAL_CALLS)


@pytest.mark.parametrize(
    ("stream", "wanted"),
    [
        ("_RGg", (READ, (SCOPE,))),
        ("_MARKt", (READ, (SCOPE,))),
        ("_other", (UPDATE, (SCOPE,))),
        ("t", (UPDATE, (SCOPE,))),
    ],
)
def test_streams_are_made_for_readers_with_permission_to_read(stream, wanted):
    request = pb.StreamConfig(streamInfo=info(stream))
    assert need_of(RULES, "create_stream", request) == wanted


LOOKS = pb.StreamInfo(scope="s", stream="t", accessOperation=pb.StreamInfo.NONE)


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("get_current_segments", LOOKS),
        ("get_segments", pb.GetSegmentsRequest(streamInfo=LOOKS)),
        ("get_epoch_segments", pb.GetEpochSegmentsRequest(streamInfo=LOOKS)),
    ],
)
def test_segments_are_shown_with_permission_to_read_to_who_only_looks(call, request_):
    assert need_of(RULES, call, request_) == (READ, (STREAM,))


@pytest.mark.parametrize(
    ("stream", "access", "wanted"),
    [
        *[("t", access, UPDATE) for access in ("UNSPECIFIED", "WRITE", "READ_WRITE", "ANY", "NONE")],
        ("t", "READ", READ),
        *[("_RGg", access, READ) for access in ("UNSPECIFIED", "WRITE", "READ")],
        *[("_MARKt", access, READ) for access in ("UNSPECIFIED", "READ_WRITE", "READ")],
        ("_other", "WRITE", UPDATE),
        ("k_kvtable", "UNSPECIFIED", UPDATE),
        ("k_kvtable", "READ", READ),
    ],
)
def test_a_token_needs_what_it_is_asked_for(stream, access, wanted):
    request = pb.StreamInfo(scope="s", stream=stream, accessOperation=access)
    resources = {
        "t": (STREAM, "prn::/scope:s/key-value-table:t"),  # clients of tables ask under the bare name
        "_RGg": (GROUP,),
        "_MARKt": (STREAM,),
        "_other": ("prn::/scope:s/stream:_other",),
        "k_kvtable": (TABLE,),
    }
    assert need_of(RULES, "get_delegation_token", request) == (wanted, resources[stream])


def test_groups_are_managed_by_readers_unless_that_is_switched_off():
    token = pb.StreamInfo(scope="s", stream="_RGg")
    for name in ("createReaderGroup", "updateReaderGroup", "deleteReaderGroup"):
        request = valid_request(name, pb.TxnId())
        assert need_of(STRICT, snake_case(name), request) == (UPDATE, (SCOPE,))
    assert need_of(STRICT, "get_delegation_token", token) == (UPDATE, (GROUP,))
    token.accessOperation = pb.StreamInfo.READ
    assert need_of(STRICT, "get_delegation_token", token) == (READ, (GROUP,))
    state = pb.StreamConfig(streamInfo=info("_RGg"))
    assert need_of(STRICT, "create_stream", state) == (UPDATE, (SCOPE,))
    marks = pb.StreamConfig(streamInfo=info("_MARKt"))
    assert need_of(STRICT, "create_stream", marks) == (READ, (SCOPE,))


@pytest.mark.parametrize("call", ["create_reader_group", "update_reader_group"])
def test_a_group_that_retains_data_needs_its_streams_too(call):
    cuts = [
        pb.StreamCut(streamInfo=pb.StreamInfo(scope=scope, stream=stream))
        for scope, stream in [("s", "t"), ("other", "t"), ("s", "t")]
    ]
    request = pb.ReaderGroupConfiguration(scope="s", readerGroupName="g", startingStreamCuts=cuts)
    assert RULES[call](request).also == ()
    for kind in (pb.ReaderGroupConfiguration.MANUAL, pb.ReaderGroupConfiguration.AUTOMATIC, 7):
        request.retentionType = kind
        for rules in (RULES, STRICT):
            also = [(need.permission, need.resources) for need in rules[call](request).also]
            assert also == [(UPDATE, (STREAM,)), (UPDATE, ("prn::/scope:other/stream:t",))]


def test_internal_streams_are_checked_under_what_they_serve():
    for stream, resource in {"_RGg": GROUP, "_MARKt": STREAM, "k_kvtable": TABLE}.items():
        request = pb.SegmentId(streamInfo=info(stream))
        assert need_of(RULES, "get_uri", request) == (READ, (resource,))
    requests = pb.SegmentId(streamInfo=pb.StreamInfo(scope="_system", stream="_requeststream"))
    assert need_of(RULES, "get_uri", requests) == (READ, ("prn::/scope:_system/stream:_requeststream",))


def test_every_paged_listing_shows_what_may_be_read():
    paged = {
        snake_case(name)
        for name, method in METHODS.items()
        if "continuationToken" in GetMessageClass(method.output_type).DESCRIPTOR.fields_by_name
    }
    assert paged == set(LISTINGS)
