"""What the library of object stores is given, and what it says when a request fails."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.objects.errors import FailureKind, is_library_error, read_failure
from headrace.storage.providers.objects.options import operator_options

BLOB = "https://acc.blob.core.windows.net"


@pytest.mark.parametrize(
    ("uri", "environ", "service", "options"),
    [
        ("s3://b/p?region=r", {"AWS_REGION": "other"}, "s3", {"bucket": "b", "region": "r"}),
        ("s3://b", {"AWS_REGION": "r"}, "s3", {"bucket": "b"}),
        ("s3://b", {"AWS_DEFAULT_REGION": "r"}, "s3", {"bucket": "b"}),
        (
            "s3://b?endpoint=http://h:1",
            {},
            "s3",
            {"bucket": "b", "endpoint": "http://h:1", "region": "us-east-1"},
        ),
        ("gs://b", {}, "gcs", {"bucket": "b"}),
        ("az://c?account=acc", {}, "azblob", {"container": "c", "account_name": "acc", "endpoint": BLOB}),
        (
            "az://c",
            {"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_KEY": "k", "AZURE_STORAGE_SAS_TOKEN": "t"},
            "azblob",
            {"container": "c", "account_name": "acc", "endpoint": BLOB, "account_key": "k"},
        ),
        (
            "az://c?account=acc&endpoint=http://h:1/acc",
            {"AZURE_STORAGE_SAS_TOKEN": "t"},
            "azblob",
            {"container": "c", "account_name": "acc", "endpoint": "http://h:1/acc", "sas_token": "t"},
        ),
    ],
)
def test_a_location_and_the_environment_make_the_options(uri, environ, service, options):
    assert operator_options(StorageLocation.parse(uri), environ) == (service, options)


@pytest.mark.parametrize(
    "uri", ["s3://b?region=r&anonymous=true", "gs://b?anonymous=true", "az://b?account=a&anonymous=true"]
)
def test_an_anonymous_location_uses_no_credentials(uri):
    _, options = operator_options(StorageLocation.parse(uri), {"AZURE_STORAGE_KEY": "k"})
    assert options["skip_signature"] == "true"
    assert "account_key" not in options


@pytest.mark.parametrize("uri", ["s3://b", "az://c"])
def test_a_location_that_does_not_say_enough_is_refused_with_what_is_missing(uri):
    with pytest.raises(InvalidArgumentError, match=r"\?(region|account)="):
        operator_options(StorageLocation.parse(uri), {})


def library_error(name, text):
    return type(name, (Exception,), {})(text)


@pytest.mark.parametrize(
    ("name", "text", "kind", "is_temporary"),
    [
        ("ConditionNotMatch", "ConditionNotMatch (permanent) at write", FailureKind.EXISTS, False),
        ("Conflict", "Conflict (temporary) at write", FailureKind.UNKNOWN, True),
        ("NotFound", "NotFound (permanent) at stat", FailureKind.ABSENT, False),
        ("ConfigInvalid", 'ConfigInvalid (permanent) => code: "NoSuchBucket"', FailureKind.NO_BUCKET, False),
        ("NotFound", 'NotFound (permanent) => code: "ContainerNotFound"', FailureKind.NO_BUCKET, False),
        ("RangeNotSatisfied", "RangeNotSatisfied (permanent)", FailureKind.RANGE, False),
        ("Unexpected", "Unexpected (permanent) => reader got too little data", FailureKind.RANGE, False),
        ("Unexpected", "Unexpected (permanent)\nresponse: Parts { status: 416 }", FailureKind.RANGE, False),
        ("Unexpected", "Unexpected (permanent)\nresponse: Parts { status: 409 }", FailureKind.UNKNOWN, True),
        ("Unexpected", "Unexpected (permanent)\nresponse: Parts { status: 507 }", FailureKind.FULL, False),
        ("PermissionDenied", 'PermissionDenied => code: "QuotaExceeded"', FailureKind.FULL, False),
        ("PermissionDenied", "PermissionDenied (permanent)", FailureKind.FORBIDDEN, False),
        ("Unexpected", "x\nSource:\n  failed to load signing credential", FailureKind.FORBIDDEN, False),
        ("NotFound", 'NotFound (permanent) => code: "XAdminUserNotFound"', FailureKind.FORBIDDEN, False),
        ("RateLimited", "RateLimited (temporary)", FailureKind.UNKNOWN, True),
        ("Unexpected", "Unexpected (permanent)\n(temporary)", FailureKind.UNKNOWN, False),
    ],
)
def test_an_error_of_the_library_is_read(name, text, kind, is_temporary):
    failure = read_failure(library_error(name, text))
    assert (failure.kind, failure.is_temporary) == (kind, is_temporary)


def test_a_library_that_fails_inside_has_a_hint():
    panic = library_error("RustPanic", "rust future panicked: unknown error")
    assert is_library_error(panic)
    assert not is_library_error(ValueError("ours"))
    assert "ca-certificates" in read_failure(panic).text


def test_the_text_of_a_failure_ends_with_its_cause():
    text = (
        "Unexpected (temporary) at write => send http request\n\nContext:\n   url: http://h:1/b/a\n"
        "   called: reqwest::send\n   service: s3\n   path: a\n   written: 1\n\nSource:\n   error sending "
        "request: client error (Connect): tcp connect error: Connection refused (os error 111)\n\n"
        "Backtrace:\n   0: x"
    )
    assert read_failure(library_error("Unexpected", text)).text == (
        "Unexpected at write => send http request ; url: http://h:1/b/a ; error sending request: client "
        "error (Connect): tcp connect error: Connection refused (os error 111)"
    )
    text = (
        "Unexpected (permanent)\n\nContext:\n   response: Parts { status: 418, version: HTTP/1.1, h: {} }\n"
    )
    assert "status: 418" in read_failure(library_error("Unexpected", text)).text


def test_the_text_of_a_failure_is_short_and_without_queries_or_backtraces():
    text = "Unexpected (temporary)\n\nContext:\n   uri: http://h/c/k?sig=hunter2&x=1\n" + "y" * 999
    failure = read_failure(library_error("Unexpected", text + "\nBacktrace:\n 0: main"))
    assert "http://h/c/k?..." in failure.text
    assert "hunter2" not in failure.text
    assert "main" not in failure.text
    assert len(failure.text) <= 300
