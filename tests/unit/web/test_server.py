"""The listener, whatever it serves: which addresses it takes, when it answers, and that it ends."""

import asyncio
import socket
import threading

import httpx
import pytest

from headrace.web.server import WebServer


async def answer(_scope, _receive, send):
    """Answer every request, as an application of ASGI."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body"})


async def test_the_application_is_made_once_in_a_thread_when_somebody_asks():
    made_in = []

    def make():
        made_in.append(threading.current_thread())
        return answer

    server = WebServer(make, "127.0.0.1", 0)
    port = await server.start()
    server.serve()
    assert made_in == []
    async with httpx.AsyncClient() as client:
        for _ in range(2):
            assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 200
    await server.stop()
    (thread,) = made_in
    assert thread is not threading.main_thread()


async def test_a_name_with_two_addresses_is_served_on_both_with_one_port(monkeypatch):
    def both(_host, port, *_args, **_options):
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
            for address in ("127.0.0.1", "127.0.0.2")
        ]

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", both)
        server = WebServer(lambda: answer, "both.example.org", 0)
        port = await server.start()
    server.serve()
    async with httpx.AsyncClient() as client:
        for address in ("127.0.0.1", "127.0.0.2"):
            assert (await client.get(f"http://{address}:{port}/ping")).status_code == 200
    await server.stop()


async def test_addresses_that_come_twice_or_are_not_here_do_not_keep_a_server_from_its_others(monkeypatch):
    def several(_host, port, *_args, **_options):
        here = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))
        elsewhere = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("192.0.2.1", port))
        return [elsewhere, here, here]

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", several)
        server = WebServer(lambda: answer, "box", 0)
        port = await server.start()
        patched.setattr(socket, "getaddrinfo", lambda *args, **options: several(*args, **options)[:1])
        with pytest.raises(OSError, match="assign requested address"):
            await WebServer(lambda: answer, "box", 0).start()
    server.serve()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{port}/ping")).status_code == 200
    await server.stop()


@pytest.mark.slow
async def test_the_server_listens_on_a_free_port_and_stops():
    server = WebServer(lambda: answer, "127.0.0.1", 0)
    port = await server.start()
    server.serve()
    server.serve()
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"http://127.0.0.1:{port}/ping")).status_code == 200
    await server.stop()
    await server.stop()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/ping")


@pytest.mark.parametrize("turns", [None, 0, 1])
async def test_a_server_that_is_stopped_before_it_answers_lets_go_of_its_port(turns):
    server = WebServer(lambda: answer, "127.0.0.1", 0)
    port = await server.start()
    if turns is not None:
        server.serve()
        for _ in range(turns):
            await asyncio.sleep(0)
    await server.stop()
    server.serve()
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_requests_wait_for_a_server_that_does_not_answer_yet():
    server = WebServer(lambda: answer, "127.0.0.1", 0)
    port = await server.start()
    async with httpx.AsyncClient() as client:
        asked = asyncio.ensure_future(client.get(f"http://127.0.0.1:{port}/ping"))
        await asyncio.sleep(0)
        server.serve()
        assert (await asked).status_code == 200
    await server.stop()
