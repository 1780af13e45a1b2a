"""Spark as a user of a server that encrypts and knows its users: by options and by a file."""

import pytest

from headrace.client import ClientConfig, Credentials, StreamConfiguration
from headrace.client.blocking import connect
from headrace.testing import LocalServer
from tests.certificates import CertificateFiles

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]

USERS = {
    "ada": ("crimson-lake", "prn::*,READ_UPDATE"),
    "etl": ("indigo-reef", "prn::/scope:sales/stream:*,READ_UPDATE"),
    "rea": ("amber-fjord", "prn::/scope:sales/stream:*,READ"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(files, tmp_path_factory):
    """A server with users and the streams ``in``, of 100 events, and ``out``."""
    brief = {"HEADRACE_AUTH__TOKEN_LIFETIME_S": "10"}
    directory = tmp_path_factory.mktemp("secured")
    arguments = ("--containers", "2", *files.arguments)
    with LocalServer(directory, *arguments, users=USERS, environment=brief) as server:
        config = ClientConfig(credentials=Credentials.basic("ada", "crimson-lake"), tls_authorities=files.ca)
        with connect(server.uri, config) as client:
            client.create_scope("sales")
            for name in ("in", "out"):
                client.create_stream("sales", name, StreamConfiguration())
            with client.event_writer("sales", "in") as writer:
                for number in range(100):
                    writer.write(b"%d" % number, f"key {number % 5}")
        yield server
        said = server.log()
        assert not any(password in said for password, *_ in USERS.values())


def with_options(builder, server, stream, **options):
    for key, value in options.items():
        builder = builder.option(key, value)
    return (
        builder.format("headrace")
        .option("controller", server.uri)
        .option("scope", "sales")
        .option("stream", stream)
    )


def numbers(spark, server, stream, **options):
    frame = with_options(spark.read, server, stream, **options).load()
    return sorted(int(row.event) for row in frame.collect())


def test_a_reader_reads_and_writes_nothing(spark, secured, files, tmp_path):
    (tmp_path / "password").write_text("amber-fjord\n")
    for options in (
        {"user": "rea", "password": "amber-fjord"},
        {"user": "rea", "password_file": str(tmp_path / "password")},
    ):
        options["tls_ca"] = str(files.ca)
        assert numbers(spark, secured, "in", **options) == list(range(100))
    frame = spark.range(3).selectExpr("cast(id as string) event")
    with pytest.raises(Exception, match="PermissionDeniedError") as caught:
        with_options(frame.write, secured, "out", **options).mode("append").save()
    assert "amber-fjord" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "HEADRACE_USER and HEADRACE_PASSWORD"),
        ({"user": "rea", "password": "amber-ford"}, "UnauthenticatedError"),
        ({"user": "rea", "password_file": "/missing"}, "password_file: /missing"),
        ({"user": "rea", "password": "amber-fjord", "tls_ca": "/missing"}, "/missing"),
    ],
)
def test_who_is_not_known_reads_nothing(spark, secured, files, options, error):
    with pytest.raises(Exception, match=error) as caught:
        numbers(spark, secured, "in", **{"tls_ca": str(files.ca), **options})
    assert "amber-f" not in str(caught.value)


def test_a_query_of_a_user_copies_a_stream(spark, secured, files, tmp_path):
    me = {"user": "etl", "password": "indigo-reef", "tls_ca": str(files.ca)}
    source = with_options(
        spark.readStream, secured, "in", start_stream_cut="earliest", approx_bytes_per_trigger="400", **me
    ).load()
    sink = with_options(source.select("event").writeStream, secured, "out", **me)
    query = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    assert numbers(spark, secured, "out", **me) == list(range(100))
    shown = with_options(spark.read, secured, "in", **me).load()
    assert "indigo-reef" not in shown._jdf.queryExecution().toString()
