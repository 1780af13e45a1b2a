"""URIs of stores: what they mean, what is refused, and that no secret gets into one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.storage.providers.location import StorageLocation

GOOD = {
    "memory://": StorageLocation("memory"),
    "file:///mnt/chunks": StorageLocation("file", prefix="/mnt/chunks"),
    "file:///a%20b/%23c": StorageLocation("file", prefix="/a b/#c"),
    "s3://bucket": StorageLocation("s3", "bucket"),
    "s3://bucket/a/b": StorageLocation("s3", "bucket", "a/b"),
    "s3://bucket/p?anonymous=true&endpoint=http://127.0.0.1:9000&region=us-east-1": StorageLocation(
        "s3",
        "bucket",
        "p",
        (("anonymous", "true"), ("endpoint", "http://127.0.0.1:9000"), ("region", "us-east-1")),
    ),
    "gs://a.bucket_1/p?endpoint=https://gcs.example": StorageLocation(
        "gs", "a.bucket_1", "p", (("endpoint", "https://gcs.example"),)
    ),
    "az://container/p?account=acc&endpoint=http://127.0.0.1:10000/acc": StorageLocation(
        "az", "container", "p", (("account", "acc"), ("endpoint", "http://127.0.0.1:10000/acc"))
    ),
    "hdfs://name-node:8020/user/headrace": StorageLocation("hdfs", "name-node:8020", "user/headrace"),
    "hdfs://[::1]:8020/d": StorageLocation("hdfs", "[::1]:8020", "d"),
    "hdfs://nameservice": StorageLocation("hdfs", "nameservice"),
}


@pytest.mark.parametrize("uri", GOOD)
def test_a_uri_names_a_place_and_is_given_again(uri):
    location = StorageLocation.parse(uri)
    assert location == GOOD[uri]
    assert str(location) == uri


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("file:///d/", "file:///d"),
        ("file://localhost/d", "file:///d"),
        ("s3://b?region=r&endpoint=http://h:1/", "s3://b?endpoint=http://h:1&region=r"),
        ("s3://b?endpoint=http%3A%2F%2Fh%3A1", "s3://b?endpoint=http://h:1"),
    ],
)
def test_spellings_of_one_place_are_equal(uri, same):
    assert str(StorageLocation.parse(uri)) == same


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "bucket",
        "/mnt/chunks",
        "ftp://host/x",
        "s3:bucket",
        "S3://bucket",
        "s3://",
        "s3:///prefix",
        "s3://-bucket",
        "s3://bucket/a//b",
        "s3://bucket/a/../b",
        "s3://bucket/./a",
        "s3://bucket/sp%20ace",
        "s3://bucket/a b",
        "s3://bucket/%00",
        "s3://bucket/%ff",
        "s3://bucket/" + "x" * 201,
        "s3://bucket#fragment",
        "s3://bucket#",
        "s3://[bucket/x",
        "s3://bucket?",
        "s3://bucket?region",
        "s3://bucket?region=",
        "s3://bucket?region=a&region=b",
        "s3://bucket?colour=red",
        "s3://bucket?anonymous=yes",
        "s3://bucket?endpoint=localhost:9000",
        "s3://bucket?endpoint=ftp://h",
        "s3://bucket?endpoint=http://h:99999",
        "s3://bucket?endpoint=http://",
        "gs://bucket?region=r",
        "file://mnt/chunks",
        "file://",
        "file:///",
        "file:///a/../b",
        "file:///a?endpoint=http://h",
        "memory://x",
        "memory:///x",
        "hdfs://",
        "hdfs:///d",
        "hdfs://host:port/d",
        "hdfs://host:8020/a/../b",
    ],
)
def test_what_names_no_place_is_refused(uri):
    if uri == "s3://bucket?":
        assert StorageLocation.parse(uri) == StorageLocation("s3", "bucket")
        return
    with pytest.raises(InvalidArgumentError):
        StorageLocation.parse(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA:hunter2@bucket/p",
        "s3://hunter2@bucket/p",
        "s3://bucket?secret_access_key=hunter2",
        "s3://bucket?access_key_id=hunter2",
        "s3://bucket?accesskey=hunter2",
        "s3://bucket?session_token=hunter2",
        "s3://bucket?endpoint=http://user:hunter2@h:1",
        "s3://bucket?endpoint=http://h:1?key=hunter2",
        "az://container?sas=hunter2",
        "az://container?account_key=hunter2",
        "az://container?sig=hunter2",
        "az://container?colour=hunter2",
        "hdfs://user:hunter2@host:1/d",
        "ftp://user:hunter2@host",
        "s3://u:hunter2@[x",
    ],
)
def test_a_secret_is_refused_and_not_repeated(uri):
    with pytest.raises(InvalidArgumentError) as caught:
        StorageLocation.parse(uri)
    assert "hunter2" not in str(caught.value)


PARTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/\0"), min_size=1).filter(
    lambda part: part not in {".", ".."}
)


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_any_directory_has_a_uri(parts):
    location = StorageLocation("file", prefix="/" + "/".join(parts))
    assert StorageLocation.parse(str(location)) == location


@given(st.text() | st.text(alphabet="s3az:/?&=#@%[].bucket1 ").map(lambda text: "s3://" + text))
def test_any_text_is_a_place_or_refused(text):
    try:
        location = StorageLocation.parse(text)
    except InvalidArgumentError:
        return
    assert StorageLocation.parse(str(location)) == location
