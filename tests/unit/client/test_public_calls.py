"""How calls of both faces fail: short, with what was meant, and with everything behind ``inner``."""

import inspect
import pickle
import traceback
from concurrent.futures import CancelledError

import pytest

import headrace
import headrace.aio
from headrace.client.public_calls import public_call
from headrace.errors import ClosedError, EventTooLargeError, HeadraceError, NoSuchStreamError


def deep(error, depth=20):
    """Fail far below, because of something else."""
    if depth:
        deep(error, depth - 1)
    try:
        raise OSError("a socket")
    except OSError:
        raise error  # noqa: B904 - as a mistake would


@public_call
def call(error, *, segments=1, scope="s"):
    return deep(error)


@public_call
async def awaited(error, *, segments=1, scope="s"):
    return deep(error)


def failure_of(function):
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("it did not fail")


def frames_of(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def printed(error):
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("error", [NoSuchStreamError("no stream"), EventTooLargeError(9, 8), TimeoutError()])
def test_an_error_of_ours_has_one_frame_of_ours_and_nothing_behind_it(error):
    found = failure_of(lambda: call(error))
    assert len(frames_of(found)) == 3  # here, the caller, ours
    assert (type(found), found.args, str(found)) == (type(error), error.args, str(error))
    assert "a socket" not in printed(found)
    assert "During handling" not in printed(found)
    assert found.inner is error
    assert "a socket" in printed(found.inner)
    assert len(frames_of(found.inner)) > 20


async def test_awaited_calls_do_the_same():
    with pytest.raises(ClosedError) as found:
        await awaited(ClosedError("closed"))
    assert len(frames_of(found.value)) == 2
    assert "During handling" not in printed(found.value)


def test_fields_and_pickles_go_along():
    found = failure_of(lambda: call(EventTooLargeError(9, 8)))
    assert (found.size_bytes, found.limit_bytes) == (9, 8)
    found = pickle.loads(pickle.dumps(failure_of(lambda: call(NoSuchStreamError("no stream")))))
    assert (type(found), str(found)) == (NoSuchStreamError, "no stream")


def test_one_error_raised_to_many_keeps_the_frames_of_each():
    error = ClosedError("closed")
    first, second = failure_of(lambda: call(error)), failure_of(lambda: call(error))
    assert first is not second
    assert len(frames_of(first)) == len(frames_of(second)) == 3
    again = failure_of(lambda: call(first))
    assert again.inner is error


def test_the_caller_s_own_error_stays_in_sight():
    def program():
        try:
            {}["key"]
        except KeyError:
            call(ClosedError("closed"))

    assert isinstance(failure_of(program).__context__, KeyError)


@pytest.mark.parametrize("error", [KeyError("k"), AssertionError("a bug"), CancelledError()])
def test_what_is_not_ours_keeps_every_frame(error):
    assert len(frames_of(failure_of(lambda: call(error)))) > 20


@pytest.mark.parametrize("value", ["1", "yes"])
def test_for_debugging_every_frame_is_shown(monkeypatch, value):
    monkeypatch.setenv("HEADRACE_DEBUG", value)
    error = ClosedError("closed")
    found = failure_of(lambda: call(error))
    assert found is error
    assert "a socket" in printed(found)
    monkeypatch.setenv("HEADRACE_DEBUG", "0")
    assert failure_of(lambda: call(error)) is not error


def test_a_cause_of_ours_is_told_without_its_frames():
    error = ClosedError("closed")
    error.__cause__ = failure_of(lambda: deep(NoSuchStreamError("no stream")))
    found = failure_of(lambda: call(error))
    assert isinstance(found.__cause__, NoSuchStreamError)
    assert frames_of(found.__cause__) == []
    assert "a socket" not in printed(found)


def test_a_misspelt_keyword_is_told_what_was_meant():
    for function in (call,):
        found = failure_of(lambda function=function: function(OSError(), segmets=3))
        assert type(found) is TypeError
        assert str(found) == f"{function.__name__}() takes no keyword 'segmets'; did you mean 'segments'?"
        assert len(frames_of(found)) == 3
    found = failure_of(lambda: call(OSError(), unheard_of=3))
    assert str(found) == "call() takes no keyword 'unheard_of'; it takes error, segments, scope"
    # Other mistakes are told as ever.
    assert "missing 1 required positional argument" in str(failure_of(call))
    assert len(frames_of(failure_of(lambda: call(TypeError("a bug"))))) > 20


TAKE_NO_SUGGESTION = {"write", "drain"}
"""Of writers: called for each event."""


class Thread:
    """Runs what blocking calls give to a loop, as far as it needs no loop."""

    def run(self, coroutine):
        return coroutine.send(None)

    def call(self, function):
        return function()

    def iterate(self, items):
        return items


class Anything:
    """In place of the object that a method belongs to."""

    def _start(self):
        return Thread(), self


def methods_of(package):
    for name in headrace.__all__:
        kind = getattr(package, name, None)
        if inspect.isclass(kind) and name not in {"Serializer", "Ack", "EventBatch", "RecordBatch"}:
            for method, function in inspect.getmembers(kind, inspect.isfunction):
                if not function.__module__.startswith("headrace.client"):
                    continue
                parameters = list(inspect.signature(function).parameters.values())[1:]
                takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
                if parameters and not takes_any and not method.startswith("_"):
                    yield f"{name}.{method}", function


@pytest.mark.parametrize("package", [headrace, headrace.aio])
def test_every_public_method_of_both_faces_tells_what_was_meant(package):
    methods = dict(methods_of(package))
    assert len(methods) > 50
    silent = set()
    for name, method in methods.items():
        try:
            result = method(Anything(), no_such_keyword=1)
            if inspect.iscoroutine(result):
                result.send(None)
        except TypeError as error:
            if "takes no keyword 'no_such_keyword'" not in str(error):
                silent.add(name)
    # These are called for each event, and a hop would be felt; or they hand something out, which an interrupt
    # in the hop would lose.
    handing_out = (
        {"EventReader.next_batch", "GroupReader.next_batch", "ByteReader.readinto"}
        if package is headrace
        else set()
    )
    writers = ("EventWriter", "NamedWriter", "Transaction", "Batch")
    assert silent == {f"{each}.write" for each in writers} | handing_out


def test_a_name_of_a_client_is_suggested():
    for package in (headrace, headrace.aio):
        with pytest.raises(TypeError, match=r"connect\(\) .* did you mean 'config'"):
            package.connect("tcp://localhost:1", confg=None)
    with pytest.raises(TypeError, match=r"ClientConfig\(\) .* did you mean 'connect_timeout_s'"):
        headrace.ClientConfig(conect_timeout_s=1)


def test_an_error_that_did_not_leave_a_client_has_nothing_behind_it():
    assert HeadraceError("x").inner is None
