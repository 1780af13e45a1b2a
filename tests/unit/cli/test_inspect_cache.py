"""``headrace inspect cache`` against what is no server of ours."""

import contextlib
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


def ask(address, capsys):
    code = main(["inspect", "cache", "--rest", address])
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
    code, out, _ = ask(server(STATISTICS % (27, b'{"cache": {"bytes_max": 7}}')), capsys)
    assert code == 0
    assert "bytes_max  7" in out
