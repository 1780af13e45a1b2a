"""``headrace inspect cache`` against what is no server of ours."""

import contextlib
import json
import socket
import threading

import pytest

from headrace.cli.main import main

STATISTICS = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


@pytest.fixture
def server():
    """Answer every request with given bytes; returns the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def serve(answer):
        def run():
            with contextlib.suppress(OSError):  # the test is over
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

        threads.append(threading.Thread(target=run))
        threads[0].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join(120)


def ask(address, capsys, *words):
    code = main(["inspect", "cache", "--rest", address, *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:port",
        "127.0.0.1:99999",
        "127.0.0.1:0",
        ":10080",
        "[::1",
        "127.0.0.1:1/path",
        "ftp://127.0.0.1:1",
        "https://127.0.0.1",
        "https://http://127.0.0.1:1",
        "user@127.0.0.1:1",
        "127.0.0.1 :1",
        "127.0.0.1:1\n",
        "höst:1",
    ],
)
def test_what_is_no_address_is_refused(address, capsys):
    code, out, err = ask(address, capsys)
    assert (code, out) == (2, "")
    assert "HOST:PORT" in err


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"\x00\x00\x18\x04\x1b[2J\x7f\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        STATISTICS % (2, b"[]"),
        STATISTICS % (17, b'{"containers":[]}'),
        STATISTICS % (22, b'{"containers":{"0":1}}'),
        STATISTICS % (50_000, b"[" * 50_000),
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["nothing", "garbage", "binary", "short", "list", "containers", "parts", "deep", "error"],
)
def test_who_answers_strangely_is_said_to_do_so(server, answer, capsys):
    code, out, err = ask(server(answer), capsys)
    assert (code, out) == (5, "")
    assert err.startswith("headrace: 127.0.0.1:")
    assert err.removesuffix("\n").isprintable()


def test_a_proxy_is_not_asked_for_a_server(server, monkeypatch, capsys):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    code, out, _ = ask(server(STATISTICS % (27, b'{"cache": {"bytes_max": 7}}')), capsys, "--all")
    assert code == 0
    assert "bytes_max  7" in out


COUNTED = {
    "cache": {"bytes_max": 512 << 20, "used_bytes": 3 << 19, "essential_bytes": 1000, "evicted_bytes": 0},
    "listener": {"connections": 3, "writers": 2},
    "containers": {
        str(number): {
            "health": {"online": number != 1},
            "read_index": {"unstored_bytes": 500, "cached_reads": 10, "storage_reads": 1, "waiting_reads": 2},
            "storage_writer": {"oldest_age_s": 4.0 * number},
            "durable_log": {
                "processor": {
                    "blocks": 600,
                    "bytes_appended": 1024,
                    "throttle": {"source": "storage" if number else "", "delay_s": 0.25 * number},
                },
                "wal": {"frames_written": 5, "write_seconds_max": 0.002},
            },
            "storage": {"bytes_written": 0, "write_failures": number},
        }
        for number in range(2)
    },
}


def answered(document):
    body = json.dumps(document).encode()
    return STATISTICS % (len(body), body)


def test_ten_lines_say_what_matters_first(server, capsys):
    code, out, _ = ask(server(answered(COUNTED)), capsys)
    assert code == 0
    assert out.splitlines() == [
        "containers   1 of 2 online",
        "cache        1.5 MiB of 512.0 MiB",
        "essential    1,000 B, evicted so far 0 B",
        "unstored     1,000 B, the oldest for 4 s",
        "reads        20 from the cache, 2 from storage, 4 wait at the tail",
        "appends      1,200 with 2.0 KiB",
        "connections  3, writers 2",
        "log          10 frames, the slowest took 2.0 ms",
        "throttled    container 1 by 250 ms: storage",
        "storage      0 B written, failures 1",
    ]


def test_the_status_of_a_server_that_is_not_ready_says_why(server, capsys):
    health = {
        "status": "UP",
        "readiness": False,
        "children": {
            "container-0": {"name": "container-0", "status": "UP", "readiness": True},
            "container-1": {
                "name": "container-1",
                "status": "DOWN",
                "readiness": False,
                "details": {"waitsFor": "space", "lastFailure": ""},
            },
        },
    }
    address = server(answered(health | COUNTED))
    assert main(["status", "--rest", address]) == 4
    assert capsys.readouterr().out.splitlines() == [
        "ready     no: container-1 is DOWN (waits for space)",
        "streams   -",
        "bytes     -",
        "unstored  1,000 B, the oldest for 4 s",
        "waits     appends are delayed: container 1 by 250 ms: storage",
    ]
    assert main(["status", "--rest", address, "--json"]) == 4
    assert json.loads(capsys.readouterr().out) == {
        "ready": False,
        "not_ready": ["container-1 is DOWN (waits for space)"],
        "streams": None,
        "bytes": None,
        "unstored_bytes": 1000,
        "waits": ["appends are delayed: container 1 by 250 ms: storage"],
    }


def test_the_status_of_no_server_has_another_exit_code(server, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = f"127.0.0.1:{listener.getsockname()[1]}"
    assert main(["status", "--rest", free]) == 3
    assert main(["status", "--rest", server(answered([]))]) == 5
    assert capsys.readouterr().out == ""


def test_what_a_server_does_not_count_is_nothing(server, capsys):
    offline = {"containers": {"0": {"health": {"online": False, "waits_for": "space"}}}, "cache": "none"}
    code, out, _ = ask(server(answered(offline)), capsys)
    assert code == 0
    assert len(out.splitlines()) == 10


def test_everything_is_there_when_it_is_asked_for(server, capsys):
    code, out, _ = ask(server(answered(COUNTED)), capsys, "--all")
    assert code == 0
    assert "container 1: durable log" in out
    assert "processor.throttle.delay_s" in out
