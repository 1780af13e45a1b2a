"""``headrace controller failed-events`` against answers of a server."""

import json
import socket
import threading

import pytest

from headrace.cli.main import main

EVENT = {
    "time": "2023-11-14T22:13:20.000+00:00",
    "bucket": 1,
    "offset": 7,
    "kind": "TXN_WORK",
    "stream": "s/t",
    "controller": "host:1",
    "reason": "KeyError: \x1b[31mx",
    "data": "00",
}


@pytest.fixture
def ask(capsys):
    """Run the verb against a server that answers with the given value; return code, output and errors."""
    threads = []

    def run(value, *options):
        body = json.dumps(value).encode()
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            with listener, listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        code = main(["controller", "failed-events", "--rest", address, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield run
    for thread in threads:
        thread.join(120)


def test_each_request_is_a_line_without_control_characters(ask):
    code, out, err = ask({"events": [EVENT], "dropped": 3})
    assert code == 0
    titles, line = out.splitlines()
    assert titles.split() == ["time", "bucket", "offset", "kind", "stream", "controller", "reason"]
    assert line.split()[:6] == ["2023-11-14T22:13:20.000+00:00", "1", "7", "TXN_WORK", "s/t", "host:1"]
    assert "\x1b" not in out
    assert "3 older ones" in err


def test_an_empty_list_says_so_and_json_is_what_the_server_said(ask):
    assert ask({"events": [], "dropped": 0}) == (0, "no request was set aside\n", "")
    code, out, _ = ask({"events": [EVENT], "dropped": 0}, "--json")
    assert code == 0
    assert json.loads(out)["events"] == [EVENT]


@pytest.mark.parametrize("value", [[], {}, {"events": 1}, {"events": [1]}])
def test_what_is_no_server_of_ours_is_said(ask, value):
    code, out, err = ask(value)
    assert code != 0
    assert out == ""
    assert "server of ours" in err
