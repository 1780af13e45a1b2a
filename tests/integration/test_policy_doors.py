"""What a policy is, at every way into the system: the same spellings mean the same, and a zero or a number
without a unit is refused with what to write instead, and creates nothing.
"""

import itertools
import sys
import time
from datetime import timedelta

import grpc
import httpx
import pytest

import headrace
from headrace.cli.main import main
from headrace.errors import InvalidArgumentError
from headrace.model.policies import RetentionKind, RetentionPolicy
from headrace.processes.config import StandaloneConfig
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.runtime.settings import flatten
from headrace.runtime.settings_sources import load
from headrace.spark.creation import ensure_stream
from headrace.spark.cuts import given_cut
from headrace.spark.options import parse_sink, parse_source
from headrace.spark.stream_graph import ClientStreamGraph
from headrace.testing import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
GIB = 1 << 30
FIXED = {"type": "FIXED_NUM_SEGMENTS", "minSegments": 1}
NAMES = (f"stream-{number}" for number in itertools.count())

TIMES = {
    "7d": 7 * DAY_MS,
    "7 days": 7 * DAY_MS,
    "1 week": 7 * DAY_MS,
    "2h30m": 2 * HOUR_MS + 1_800_000,
    "1d 12h": 36 * HOUR_MS,
    "1.5 hours": HOUR_MS * 3 // 2,
    "90min": HOUR_MS * 3 // 2,
    "250 ms": 250,
}
SIZES = {"1 GiB": GIB, "1GiB": GIB, "1.5 gib": GIB * 3 // 2, "500 MB": 500_000_000, "64k": 65_536}
ZEROS = ("0", "0s", "0 days", "0 GiB", "0h0m")
WITHOUT_UNIT = ("7", "1.5")
SENSELESS = ("30m", "7 moons", "-1 h", "days", "2h30", "30m2h", "1e3 s", "")


def is_size(text):
    return text in SIZES or text.endswith("GiB")


@pytest.fixture(scope="module")
def server():
    with LocalServer(None, "--in-memory") as running:
        with headrace.connect(running.uri) as client:
            client.create_scope("doors")
        yield running


@pytest.fixture(scope="module")
def client(server):
    with headrace.connect(server.uri) as client:
        yield client


@pytest.fixture
def doors(server, client, capfd):
    """By name: a function that makes a stream which retains what a text says, and raises if it is refused."""

    def command(verb, text):
        def run(stream):
            kind = "size" if is_size(text) else "time"
            words = ("stream", verb, f"doors/{stream}", f"--retain-{kind}={text}", "--uri", server.uri)
            code = main(list(words))
            sys.stderr.flush()
            said = capfd.readouterr().err
            if code:
                raise InvalidArgumentError(said)

        return run

    def python(text):
        return lambda stream: client.create_stream(f"doors/{stream}", retention=text)

    def update(text):
        def run(stream):
            client.create_stream(f"doors/{stream}", retention="77 days")
            try:
                command("update", text)(stream)
            except InvalidArgumentError:
                client.seal_stream(f"doors/{stream}")
                client.delete_stream(f"doors/{stream}")
                raise

        return run

    def spark(text):
        def run(stream):
            name = "size_bytes" if is_size(text) else "duration_milliseconds"
            options = {"path": f"doors/{stream}", "allow_create_stream": "true"}
            sink = parse_sink(options | {f"default_retention_{name}": text}, streaming=True)
            ensure_stream(client, "doors", stream, sink.creation)

        return run

    return {
        "python": python,
        "create": lambda text: command("create", text),
        "update": update,
        "spark": spark,
    }


WORDS_FOR_NONE = {
    "python": "'none' retains all",
    "create": "leaving the option out retains all",
    "update": "--retain-all retains all",
    "spark": "leaving the option out retains all",
}


def test_a_spelling_means_the_same_everywhere(doors, client):
    for (text, number), (door, retaining) in itertools.product({**TIMES, **SIZES}.items(), doors.items()):
        stream = next(NAMES)
        retaining(text)(stream)
        found = client.stream_configuration(f"doors/{stream}").retention
        kind = RetentionKind.TIME if text in TIMES else RetentionKind.SIZE
        assert found == RetentionPolicy(kind, number), f"{text!r} at {door}"


@pytest.mark.parametrize(
    ("texts", "why"),
    [(ZEROS, None), (WITHOUT_UNIT, "a number needs its unit"), (SENSELESS, "is no retention")],
)
def test_what_is_no_retention_is_refused_everywhere_and_creates_nothing(doors, client, texts, why):
    for text, (door, retaining) in itertools.product(texts, doors.items()):
        if door == "spark" and text == "7":
            continue  # the name of the option says the unit
        stream = next(NAMES)
        with pytest.raises(InvalidArgumentError) as refused:
            retaining(text)(stream)
        assert (why or WORDS_FOR_NONE[door]) in str(refused.value), f"{text!r} at {door}"
        assert not client.stream_exists(f"doors/{stream}"), f"{text!r} at {door}"


def test_none_is_a_word_everywhere(doors, client):
    for retaining in doors.values():
        stream = next(NAMES)
        retaining("none")(stream)
        assert client.stream_configuration(f"doors/{stream}").retention == RetentionPolicy.none()


def test_a_zero_is_refused_by_the_model():
    with pytest.raises(InvalidArgumentError, match=r"RetentionPolicy.none\(\) retains all"):
        RetentionPolicy.by_time(0)
    with pytest.raises(InvalidArgumentError, match=r"RetentionPolicy.none\(\) retains all"):
        RetentionPolicy.by_size(0, GIB)


def test_a_timedelta_of_zero_is_refused(client):
    with pytest.raises(InvalidArgumentError, match="'none' retains all"):
        client.create_stream(f"doors/{next(NAMES)}", retention=timedelta())


@pytest.mark.parametrize(
    "retention",
    [
        {"type": "LIMITED_SIZE_MB", "value": 0},
        {"type": "LIMITED_SIZE_MB", "value": 0, "maxValue": 5},
        {"type": "LIMITED_DAYS", "value": 0, "timeBasedRetention": {"days": 0, "hours": 0, "minutes": 0}},
    ],
)
def test_rest_refuses_a_zero(server, client, retention):
    stream = next(NAMES)
    body = {"streamName": stream, "scalingPolicy": FIXED, "retentionPolicy": retention}
    answer = httpx.post(f"{server.rest_url}/v1/scopes/doors/streams", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "retentionPolicy")
    assert "leaving retentionPolicy out retains all" in answer.json()["error"]
    assert not client.stream_exists(f"doors/{stream}")


def test_control_calls_refuse_a_zero_and_take_none_as_every_client_says_it(server, client):
    with grpc.insecure_channel(server.uri.removeprefix("tcp://")) as channel:
        stub = ControllerServiceStub(channel)

        def create(**retention):
            name = next(NAMES)
            config = pb.StreamConfig(
                streamInfo=pb.StreamInfo(scope="doors", stream=name),
                scalingPolicy=pb.ScalingPolicy(minNumSegments=1),
                **({"retentionPolicy": pb.RetentionPolicy(**retention)} if retention else {}),
            )
            assert stub.createStream(config).status == pb.CreateStreamStatus.SUCCESS
            return client.stream_configuration(f"doors/{name}").retention

        for kind in (pb.RetentionPolicy.TIME, pb.RetentionPolicy.SIZE):
            with pytest.raises(grpc.RpcError) as refused:
                create(retentionType=kind, retentionMax=(1 << 63) - 1)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "no retentionPolicy, or one of type 0, retains all" in refused.value.details()
        for none in ({}, {"retentionMax": (1 << 63) - 1}, {"retentionParam": 5}):
            assert create(**none) == RetentionPolicy.none()
        assert create(retentionType=1, retentionParam=5) == RetentionPolicy.by_time(5)


@pytest.mark.parametrize(
    "name",
    [
        "default_segment_target_rate_bytes_per_sec",
        "default_segment_target_rate_events_per_sec",
        "approx_bytes_per_trigger",
    ],
)
def test_a_limit_of_zero_of_a_job_is_refused(name):
    with pytest.raises(InvalidArgumentError, match=f"option {name} is 0: leaving it out"):
        parse_source({"path": "a/b", name: "0"}, streaming=True)
    assert parse_source({"path": "a/b"}, streaming=True).bytes_per_trigger == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--segments", "0"), "1 to 10000 segments"),
        (("--events-per-second", "0"), "target rate of 0"),
        (("--kib-per-second", "0"), "target rate of 0"),
        (("--events-per-second", "5", "--scale-factor", "0"), "scale factor of 0"),
    ],
)
def test_scaling_by_zero_is_refused(server, client, capfd, words, said):
    stream = next(NAMES)
    assert main(["stream", "create", f"doors/{stream}", *words, "--uri", server.uri]) == 2
    assert said in capfd.readouterr().err
    assert not client.stream_exists(f"doors/{stream}")


def test_a_time_that_cannot_be_meant_is_refused_everywhere(server, client, capfd):
    stream = next(NAMES)
    client.create_stream(f"doors/{stream}")
    now_ms = time.time_ns() // 1_000_000

    def command(*words):
        if main([*words, "--uri", server.uri]):
            raise InvalidArgumentError(capfd.readouterr().err)

    def rest(text):
        answer = httpx.get(f"{server.rest_url}/v1/scopes/doors/streams/{stream}/cut", params={"at": text})
        if answer.status_code == 400:
            raise InvalidArgumentError(answer.json()["error"])

    def spark(text):
        start = parse_source({"path": f"doors/{stream}", "start_timestamp": text}, streaming=True).start
        given_cut(start, ClientStreamGraph(client, "doors", stream))

    doors = {
        "python": lambda text: client.cut_at(f"doors/{stream}", int(text)),
        "stream cut": lambda text: command("stream", "cut", f"doors/{stream}", "--at", text),
        "event read": lambda text: command("event", "read", f"doors/{stream}", "--since", text),
        "rest": rest,
        "spark": spark,
    }
    for ask in doors.values():
        for time_ms, why in ((now_ms + 3_600_000, "is in the future"), (now_ms // 1000, "before any stream")):
            with pytest.raises(InvalidArgumentError, match=why):
                ask(str(time_ms))
        ask(str(now_ms))


def test_settings_take_the_same_spellings():
    def loaded(name, text):
        variable = f"HEADRACE_{name.upper().replace('.', '__')}"
        return flatten(load(StandaloneConfig, environment={variable: text}))[name]

    for text, number in TIMES.items():
        if number >= DAY_MS:
            assert loaded("controller.sink_kept_ms", text) == number
        elif number >= 1000:
            assert loaded("controller.retention.period_s", text) == number / 1000
    for text, number in SIZES.items():
        if number < GIB:
            assert loaded("container.storage.rollover_bytes", text) == number
    for text in ("30m", "7 moons", "2h30", "-1 h"):
        with pytest.raises(InvalidArgumentError, match=r"period_s|PERIOD_S"):
            loaded("controller.retention.period_s", text)
