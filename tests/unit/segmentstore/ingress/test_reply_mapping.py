"""Every error there is has its reply, or closes the connection."""

import inspect

import pytest

from headrace import errors as e
from headrace.segmentstore.ingress import reply_mapping
from headrace.segmentstore.ingress.reply_mapping import Question, plain_text, question_of, reply_to
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Request
from headrace.wire.frames import decode_payload, encode

QUESTION = Question(7, "seg", 5, "readSegment")

#: What the client gets for every leaf. None: the connection is closed.
EXPECTED = {
    "SegmentExistsError": c.SegmentAlreadyExists,
    "NoSuchSegmentError": c.NoSuchSegment,
    "SegmentMergedError": c.NoSuchSegment,
    "SegmentSealedError": c.SegmentIsSealed,
    "SegmentTruncatedError": c.SegmentIsTruncated,
    "OffsetMismatchError": c.SegmentIsTruncated,
    "AttributeMismatchError": c.SegmentAttributeUpdated,
    "TableNotEmptyError": c.TableSegmentNotEmpty,
    "TableKeyMissingError": c.TableKeyDoesNotExist,
    "TableKeyVersionError": c.TableKeyBadVersion,
    "SegmentNotSealedError": c.ErrorMessage,
    "InvalidArgumentError": c.ErrorMessage,
    "InvalidNameError": c.ErrorMessage,
    "AnswerTooLargeError": c.ErrorMessage,
    "EventTooLargeError": c.ErrorMessage,
    "TooManyAttributesError": c.ErrorMessage,
    "TooManyWritersError": c.ErrorMessage,
    "StorageReadRefusedError": c.ErrorMessage,
    "UnsupportedError": c.OperationUnsupported,
    "AccessDeniedError": c.AuthTokenCheckFailed,
    "TokenExpiredError": c.AuthTokenCheckFailed,
    "PermissionDeniedError": c.AuthTokenCheckFailed,
    "UnauthenticatedError": c.AuthTokenCheckFailed,
}
#: Families whose leaves share one answer.
FAMILIES = {
    e.OwnershipError: c.WrongHost,
    e.OverloadError: None,
    e.UnknownOutcomeError: None,
    e.CorruptionError: None,
}
#: Requests of other layers: they cannot come from the segment store, and would be a bug.
FOREIGN = (
    "EventNotDecoded",
    "EventNotRecord",
    "LargeEvent",
    "ReaderOffline",
    "WriterReplaced",
    "Scope",
    "Stream",
    "Transaction",
    "ReaderGroup",
    "KeyValueTable",
    "NoSuchTable",
    "Node",
    "Chunk",
    "Precondition",
    "Protocol",
    "Tls",
)


def leaves(kind=e.HeadraceError):
    found = []
    for name, value in inspect.getmembers(e, inspect.isclass):
        if issubclass(value, kind) and value not in {*e.EXIT_CODES, e.HeadraceError, e.SegmentError}:
            found.append((name, value))
    return found


def make(kind):
    values = {"segment": "other", "start_offset": 3, "offset": 1, "expected": 2, "actual": 9}
    values |= {
        "limit": 1,
        "total": 2,
        "attribute_id": bytes(16),
        "size_bytes": 1,
        "limit_bytes": 0,
        "start": 0,
        "end": 1,
        "path": "p",
        "holder": "h",
    }
    signature = inspect.signature(kind.__init__)
    required = [
        parameter.name
        for parameter in list(signature.parameters.values())[1:]
        if parameter.default is inspect.Parameter.empty
        and parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}
    ]
    return kind(**{name: values.get(name, "text") for name in required})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), leaves())
def test_every_leaf_has_its_answer(name, kind):
    error = make(kind)
    reply = reply_to(error, QUESTION)
    family = e.family_of(error)
    if name in EXPECTED:
        assert type(reply) is EXPECTED[name]
    elif family in FAMILIES:
        expected = FAMILIES[family]
        assert reply is None if expected is None else type(reply) is expected
    else:
        assert any(word in name for word in FOREIGN), f"decide what {name} becomes on the wire"
        assert reply is None
    if reply is not None:
        assert reply.request_id == 7
        assert getattr(reply, "segment", "seg") == "seg"
        assert (
            decode_payload(int.from_bytes(encode(reply)[:4], "big", signed=True), encode(reply)[8:]) == reply
        )


def test_no_entry_of_the_table_is_for_an_error_that_does_not_exist_any_more():
    assert {kind.__name__ for kind in reply_mapping.ANSWERS} <= {
        *EXPECTED,
        "OwnershipError",
        "WrongHostError",
    }


def test_replies_repeat_the_offsets_of_the_question():
    assert reply_to(e.NoSuchSegmentError("x"), QUESTION).offset == 5
    assert reply_to(e.SegmentSealedError("x"), QUESTION).offset == 5
    assert reply_to(e.SegmentTruncatedError("x", 3, 1), QUESTION) == c.SegmentIsTruncated(7, "seg", 3, "", 5)
    assert reply_to(e.OffsetMismatchError("x", 5, 9), QUESTION) == c.SegmentIsTruncated(7, "seg", 9, "", 5)


def test_a_writer_that_is_set_up_gets_no_message_of_the_store():
    """The Rust client expects its setup, or the end of the connection."""
    refused = e.StorageReadRefusedError("no")
    assert reply_to(refused, Question(7, "seg", -1, "setupAppend")) is None
    assert reply_to(refused, QUESTION) == c.ErrorMessage(7, "seg", "no", -1)


def test_anything_that_is_not_ours_closes():
    assert reply_to(RuntimeError("bug"), QUESTION) is None
    assert reply_to(OSError(5, "io"), QUESTION) is None


def test_messages_are_cut_to_what_every_peer_reads():
    assert plain_text("ok") == "ok"
    assert len(plain_text("x" * 100_000)) == 1000
    assert plain_text("\0\ud800\U0001f600\uffff") == "???\uffff"


@pytest.mark.parametrize(
    ("request_", "segment", "offset", "operation"),
    [
        (c.ReadSegment("s", 5, 1, "", 9), "s", 5, "readSegment"),
        (c.TruncateSegment(9, "s", 6, ""), "s", 6, "truncateSegment"),
        (c.UpdateTableEntries(9, "s", "", [], 4), "s", 4, "updateTableEntries"),
        (c.RemoveTableKeys(9, "s", "", []), "s", -1, "removeTableKeys"),
        (c.MergeSegments(9, "t", "s", ""), "s", -1, "mergeSegments"),
        (c.MergeSegmentsBatch(9, "s", ["x"], ""), "s", -1, "mergeSegmentsBatch"),
        (c.CreateTransientSegment(9, bytes(16), "s", ""), "s", -1, "createTransientSegment"),
        (c.DeleteTableSegment(9, "s", True, ""), "s", -1, "deleteTableSegment"),
        (c.SetupAppend(9, bytes(16), "s", ""), "s", -1, "setupAppend"),
    ],
)
def test_what_a_reply_repeats(request_, segment, offset, operation):
    assert isinstance(request_, Request)
    assert question_of(request_) == Question(9, segment, offset, operation)
