"""Questions to a REST interface that encrypts, or wants to know who asks."""

import base64
import contextlib
import socket
import ssl
import threading

import pytest
import trustme

from headrace.cli.main import main

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
ME = base64.b64encode(b"me:hush").decode()


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def trusted(authority, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return str(tmp_path / "ca.pem")


@pytest.fixture
def serve(authority):
    """Answer every request with given bytes; returns the port and the requests."""
    closing = []

    def start(answer=OK, *, tls=False, host="127.0.0.1"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(host).configure_cert(context)
        listener = socket.create_server(("127.0.0.1", 0))
        requests = []

        def run():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError), connection:
                    stream = context.wrap_socket(connection, server_side=True) if tls else connection
                    with stream:
                        request = stream.recv(65536)
                        requests.append(request.decode("latin-1"))
                        stream.sendall(answer if request.startswith(b"GET") else BAD)

        thread = threading.Thread(target=run)
        thread.start()
        closing.append((listener, thread))
        return listener.getsockname()[1], requests

    yield start
    for listener, thread in closing:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)


@pytest.fixture
def user(monkeypatch):
    monkeypatch.setenv("HEADRACE_USER", "me")
    monkeypatch.setenv("HEADRACE_PASSWORD", "hush")


def ask(capsys, address, *options):
    code = main(["inspect", "cache", "--json", "--rest", address, *options])
    captured = capsys.readouterr()
    assert "hush" not in captured.out + captured.err
    assert ME not in captured.out + captured.err
    return code, captured.out, captured.err


def test_an_encrypted_interface_is_asked_with_its_authority(serve, trusted, capsys):
    port, _ = serve(tls=True)
    code, out, _ = ask(capsys, f"https://127.0.0.1:{port}", "--tls-ca", trusted)
    assert (code, out.strip()) == (0, "{}")


def test_the_environment_names_authority_and_user(serve, trusted, user, monkeypatch, capsys):
    monkeypatch.setenv("HEADRACE_TLS_CA", trusted)
    port, requests = serve(tls=True)
    assert ask(capsys, f"https://127.0.0.1:{port}")[0] == 0
    assert f"Authorization: Basic {ME}\r\n" in requests[0]


def test_credentials_do_not_follow_to_another_server(serve, user, capsys):
    elsewhere, requests = serve()
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % elsewhere
    port, _ = serve(moved)
    ask(capsys, f"127.0.0.1:{port}")
    assert requests
    assert "uthorization" not in requests[0]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (b"401 Unauthorized", "the credentials are wrong"),
        (b"403 Forbidden", "this user may not read"),
        (b"421 Misdirected Request", "no name of this server"),
    ],
)
def test_a_refusal_says_what_is_missing(serve, user, capsys, status, words):
    port, _ = serve(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
    code, out, err = ask(capsys, f"127.0.0.1:{port}")
    assert (code, out) == (2, "")
    assert words in err


def test_who_has_no_credentials_learns_what_to_set(serve, capsys, monkeypatch):
    for name in ("HEADRACE_USER", "HEADRACE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    port, _ = serve(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
    code, _, err = ask(capsys, f"127.0.0.1:{port}")
    assert code == 2
    assert "set HEADRACE_USER and HEADRACE_PASSWORD" in err


@pytest.mark.parametrize(
    ("scheme", "tls", "host", "words"),
    [
        (
            "http",
            True,
            "127.0.0.1",
            "speaks TLS and this client does not: connect with tls:// (REST: https://)",
        ),
        ("https", False, "127.0.0.1", "does not speak TLS: connect with tcp:// (REST: http://)"),
        ("https", True, "example.org", "is for other names"),
    ],
)
def test_a_mix_up_says_how_to_connect(serve, trusted, capsys, monkeypatch, scheme, tls, host, words):
    monkeypatch.setenv("HEADRACE_TLS_CA", trusted)
    port, _ = serve(tls=tls, host=host)
    code, out, err = ask(capsys, f"{scheme}://127.0.0.1:{port}")
    assert (code, out) == (2, "")
    assert words in err


def test_an_authority_that_is_not_known_says_which_option_names_it(serve, capsys, monkeypatch):
    monkeypatch.delenv("HEADRACE_TLS_CA", raising=False)
    port, _ = serve(tls=True)
    code, _, err = ask(capsys, f"https://127.0.0.1:{port}")
    assert code == 2
    assert "--tls-ca FILE" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "cache", "--rest", "127.0.0.1:1"],
        ["scope", "list", "--uri", "tcp://127.0.0.1:1"],
        ["controller", "failed-events", "--rest", "http://127.0.0.1:1"],
    ],
)
def test_an_authority_for_a_plain_address_is_refused_before_anything_is_sent(arguments, trusted, capsys):
    assert main([*arguments, "--tls-ca", trusted]) == 2
    assert "without TLS" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["missing.pem", "empty.pem"])
def test_a_file_without_authorities_is_named(tmp_path, capsys, file):
    (tmp_path / "empty.pem").touch()
    path = str(tmp_path / file)
    assert main(["scope", "list", "--uri", "tls://127.0.0.1:1", "--tls-ca", path]) == 2
    assert file in capsys.readouterr().err


def test_half_a_pair_of_variables_is_refused(monkeypatch, capsys):
    monkeypatch.setenv("HEADRACE_USER", "me")
    monkeypatch.delenv("HEADRACE_PASSWORD", raising=False)
    for arguments in (["scope", "list", "--uri", "tcp://127.0.0.1:1"], ["inspect", "cache"]):
        assert main(arguments) == 2
        assert "HEADRACE_PASSWORD is not" in capsys.readouterr().err
