"""Who is let in, how often that costs a check, and what a failure shows."""

import asyncio
import threading
from collections import Counter

import pytest

import headrace.security.gatekeeper as gatekeeper_module
from headrace.errors import InvalidArgumentError, ThrottledError, UnauthenticatedError
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.entropy import SeededEntropy
from headrace.security.gatekeeper import CHECKS_MAX, LOOK_INTERVAL_S, REMEMBERED_S, WAITING_MAX, Gatekeeper
from headrace.security.permission import Permission
from headrace.testing.blocking import SimulatedThreads
from tests.unit.security.gatekeeping.handlers import Handler


def make(*handlers):
    return Gatekeeper(handlers, SimulatedThreads(SeededEntropy(1)), SeededEntropy(2))


async def refused(gatekeeper, header):
    with pytest.raises(UnauthenticatedError) as error:
        await gatekeeper.authenticate(header)
    return str(error.value)


async def test_a_caller_has_a_name_and_permissions():
    caller = await make(Handler(good="ada")).authenticate("Basic good")
    assert caller.name == "ada"
    assert caller.permission("prn::/") is Permission.READ
    assert caller.permission("prn::/scope:s") is Permission.NONE


@pytest.mark.parametrize("header", ["basic good", "BASIC good", " Basic   good "])
async def test_the_method_is_in_any_case(header):
    assert (await make(Handler(good="ada")).authenticate(header)).name == "ada"


async def test_each_method_has_its_handler_and_its_own_memory():
    basic, ticket = Handler(same="ada"), Handler("Ticket", same="bob")
    gatekeeper = make(basic, ticket)
    for _ in range(2):
        assert (await gatekeeper.authenticate("Basic same")).name == "ada"
        assert (await gatekeeper.authenticate("Ticket same")).name == "bob"
    assert (len(basic.checks), len(ticket.checks)) == (1, 1)


async def test_one_method_has_one_handler():
    with pytest.raises(InvalidArgumentError, match="two auth handlers of method 'basic'"):
        make(Handler(), Handler("basic"))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("", "credentials are missing"),
        ("  ", "credentials are missing"),
        ("Basic", "credentials are missing"),
        ("YWRhOnNlY3JldA==", "credentials are missing"),
        ("Basic bad", "wrong user name or password"),
        ("Bearer good", "no handler for method Bearer: the server takes Basic"),
        ("YWRhOnNlY3JldA== good", "no handler for this method: the server takes Basic"),
        ("\x1b[2J good", "no handler for this method: the server takes Basic"),
        ("B" * 33 + " good", "no handler for this method: the server takes Basic"),
        ("Basic " + "x" * 9000, "the credentials have more than 8192 characters"),
        ("Basic \udcff", "wrong user name or password"),
    ],
)
async def test_a_refusal_says_why_and_nothing_of_the_credentials(header, text):
    assert await refused(make(Handler(good="ada")), header) == text


async def test_a_success_is_remembered_for_a_minute_and_a_failure_is_not():
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    end = asyncio.get_running_loop().time() + REMEMBERED_S
    while asyncio.get_running_loop().time() < end - 1:
        await gatekeeper.authenticate("Basic good")
        await asyncio.sleep(0.5)
    assert handler.checks == ["good"]
    await asyncio.sleep(2)
    await gatekeeper.authenticate("Basic good")
    assert handler.checks == ["good"] * 2
    for _ in range(2):
        await refused(gatekeeper, "Basic bad")
    assert handler.checks[2:] == ["bad"] * 2


async def test_users_that_changed_are_forgotten_within_a_second():
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    await gatekeeper.authenticate("Basic good")
    handler.users, handler.version = {}, 2
    await asyncio.sleep(LOOK_INTERVAL_S)
    assert await refused(gatekeeper, "Basic good") == "wrong user name or password"


async def test_changes_are_looked_for_once_a_second():
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    start = asyncio.get_running_loop().time()
    await gatekeeper.authenticate("Basic good")
    checked = handler.looks
    for _ in range(100):
        await asyncio.gather(*(gatekeeper.authenticate("Basic good") for _ in range(5)))
        await asyncio.sleep(0.05)
    assert handler.looks - checked <= asyncio.get_running_loop().time() - start


async def test_a_success_of_users_that_changed_during_its_check_is_not_remembered():
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    await refused(gatekeeper, "Basic bad")
    handler.version = 2

    def change(_):
        handler.version = 3

    handler.on_check = change
    assert (await gatekeeper.authenticate("Basic good")).name == "ada"
    handler.users, handler.on_check = {}, lambda _: None
    await refused(gatekeeper, "Basic good")


async def test_equal_credentials_are_checked_once_at_a_time():
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    callers = await asyncio.gather(*(gatekeeper.authenticate("Basic good") for _ in range(500)))
    assert {caller.name for caller in callers} == {"ada"}
    assert handler.checks == ["good"]
    outcomes = await asyncio.gather(*(refused(gatekeeper, "Basic bad") for _ in range(500)))
    assert set(outcomes) == {"wrong user name or password"}
    assert handler.checks == ["good", "bad"]


async def test_a_caller_that_leaves_takes_nobody_with_it():
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    await refused(gatekeeper, "Basic bad")  # from here on no look is due
    first, second, alone = (
        asyncio.ensure_future(gatekeeper.authenticate(f"Basic {token}")) for token in ("good", "good", "bad")
    )
    await asyncio.sleep(0)
    first.cancel()
    alone.cancel()
    assert (await second).name == "ada"
    await gatekeeper.close()
    assert sorted(handler.checks) == ["bad", "bad", "good"]


async def test_credentials_that_wait_are_bounded():
    handler = Handler(**{f"t{n}": "ada" for n in range(200)})
    gatekeeper = make(handler)
    await gatekeeper.authenticate("Basic t0")
    outcomes = await asyncio.gather(
        *(gatekeeper.authenticate(f"Basic t{n}") for n in range(200)), return_exceptions=True
    )
    throttled = [outcome for outcome in outcomes if isinstance(outcome, ThrottledError)]
    assert len(throttled) == 199 - CHECKS_MAX - WAITING_MAX
    assert outcomes[0].name == "ada", "who is remembered need not wait"
    assert (await gatekeeper.authenticate("Basic t199")).name == "ada"


@pytest.mark.real_loop
@pytest.mark.parametrize("users_changed", [False, True])
async def test_a_flood_of_wrong_passwords_locks_nobody_out_who_was_let_in_before(users_changed, monkeypatch):
    monkeypatch.setattr(gatekeeper_module, "REMEMBERED_S", 0.0)
    monkeypatch.setattr(gatekeeper_module, "LOOK_INTERVAL_S", 0.0)
    handler = Handler(good="ada", gone="bob")
    gatekeeper = Gatekeeper([handler], SystemThreads(), SeededEntropy(2))
    for token in ("good", "gone"):
        await gatekeeper.authenticate(f"Basic {token}")
    go_on = threading.Event()
    handler.on_check = lambda token: token in {"good", "gone"} or go_on.wait(60)
    if users_changed:
        handler.version += 1
    del handler.users["gone"]
    flood = [
        asyncio.ensure_future(gatekeeper.authenticate(f"Basic wrong{n}"))
        for n in range(CHECKS_MAX + WAITING_MAX + 10)
    ]
    await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)  # the queue is full
    for _ in range(2):
        assert (await gatekeeper.authenticate("Basic good")).name == "ada"
    assert await refused(gatekeeper, "Basic gone") == "wrong user name or password"
    with pytest.raises(ThrottledError):
        await gatekeeper.authenticate("Basic gone")
    go_on.set()
    kinds = Counter(type(each) for each in await asyncio.gather(*flood, return_exceptions=True))
    assert kinds == {UnauthenticatedError: CHECKS_MAX + WAITING_MAX, ThrottledError: 10}
    await gatekeeper.close()


@pytest.mark.parametrize("call", ["authenticate", "revision"])
async def test_a_handler_that_fails_lets_nobody_in_and_is_logged_once_per_kind(call, caplog):
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    for error in (KeyError("hunter2"), KeyError("hunter2"), OSError("hunter2")):
        handler.failure = (call, error)
        assert await refused(gatekeeper, "Basic good") == "authentication is not available"
    shown = [f"{record.getMessage()} {vars(record)!r}" for record in caplog.records]
    assert len(shown) == 2
    assert "KeyError" in shown[0]
    assert "OSError" in shown[1]
    assert "handlers.py:" in shown[0]
    assert "hunter2" not in "".join(shown)
    handler.failure = None
    assert (await gatekeeper.authenticate("Basic good")).name == "ada"


async def test_a_handler_that_fails_later_shuts_the_door_for_the_remembered_too():
    handler = Handler(good="ada")
    gatekeeper = make(handler)
    await gatekeeper.authenticate("Basic good")
    handler.failure = ("revision", OSError())
    await asyncio.sleep(LOOK_INTERVAL_S)
    assert await refused(gatekeeper, "Basic good") == "authentication is not available"


@pytest.mark.parametrize("name", [None, "", "a\nb", b"ada"])
async def test_a_handler_whose_user_has_no_name_lets_nobody_in(name):
    assert await refused(make(Handler(good=name)), "Basic good") == "authentication is not available"


async def test_a_permission_that_cannot_be_found_out_is_none(caplog):
    handler = Handler(good="ada")
    caller = await make(handler).authenticate("Basic good")
    handler.failure = ("permission", ValueError("hunter2"))
    assert [caller.permission("prn::/") for _ in range(2)] == [Permission.NONE] * 2
    assert len(caplog.records) == 1
    handler.permission = lambda *_: "READ_UPDATE"
    assert caller.permission("prn::/") is Permission.NONE


async def test_nothing_secret_is_printed():
    gatekeeper = make(Handler(good="ada"))
    caller = await gatekeeper.authenticate("Basic good")
    assert repr(gatekeeper) == "Gatekeeper(Basic)"
    assert repr(caller) == "Caller(name='ada')"


@pytest.mark.real_loop
async def test_few_credentials_are_checked_at_a_time_and_the_remembered_need_no_check():
    handler = Handler(**{f"t{n}": "ada" for n in range(10)})
    gatekeeper = Gatekeeper([handler], SystemThreads(), SeededEntropy(2))
    await gatekeeper.authenticate("Basic t0")
    go_on, active, most, lock = threading.Event(), 0, 0, threading.Lock()
    busy, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_check(_):
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
            if active == CHECKS_MAX:
                loop.call_soon_threadsafe(busy.set)
        assert go_on.wait(60)
        with lock:
            active -= 1

    handler.on_check = on_check
    waiting = [asyncio.ensure_future(gatekeeper.authenticate(f"Basic t{n}")) for n in range(1, 10)]
    await busy.wait()
    assert (await gatekeeper.authenticate("Basic t0")).name == "ada"
    assert not any(each.done() for each in waiting)
    go_on.set()
    assert {caller.name for caller in await asyncio.gather(*waiting)} == {"ada"}
    assert most == CHECKS_MAX
    await gatekeeper.close()
