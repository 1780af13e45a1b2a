"""Copies of whole stores: complete in the end, whatever was there and whatever fails on the way."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError, StorageWriteError
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper
from headrace.storage.transfer import object_copy
from headrace.storage.transfer.copy_plan import IDENTITY, Step, decide
from headrace.storage.transfer.object_copy import ObjectCopy

CHUNK = "demo/s.5.E-1-O-0.0123abcd000102030405060708090a0b"
INTERNAL = "_system/containers/metadata_0.1.E-1-O-0.0123abcd000102030405060708090a0b"


class Target(ChunkProviderWrapper):
    """Notes the order of creation; ``fail`` may raise before or after one."""

    def __init__(self, *, append=True, fail=lambda name, done: None):
        super().__init__(MemoryChunkProvider(supports_append=append))
        self.made = []
        self.fail = fail

    async def create(self, name, buffers=(), beside=None):
        self.fail(name, False)
        await self.provider.create(name, buffers, beside)
        self.made.append(name)
        self.fail(name, True)


def source_of(**objects):
    source = MemoryChunkProvider()
    source.objects.update({name: bytearray(content) for name, content in objects.items()})
    return source


def contents(provider):
    return {name: bytes(content) for name, content in provider.objects.items()}


@pytest.fixture(autouse=True)
def small_reads(monkeypatch):
    monkeypatch.setattr(object_copy, "READ_BYTES", 10)


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("verify", [False, True])
async def test_everything_is_copied_and_what_names_other_objects_comes_behind_them(append, verify):
    objects = {
        IDENTITY: b"mine",
        "_system/checkpoints/0/1-1.manifest": b"m",
        "_system/checkpoints/0/1-1.0": b"part" * 30,
        CHUNK: bytes(range(101)),
        INTERNAL: b"table",
        "empty": b"",
    }
    source, target = source_of(**objects), Target(append=append)
    report = await ObjectCopy(source, target, verify=verify, memory_bytes=50).run()
    assert contents(target.provider) == objects
    assert target.made[-3:] == ["_system/checkpoints/0/1-1.0", "_system/checkpoints/0/1-1.manifest", IDENTITY]
    total = sum(map(len, objects.values()))
    assert (report.objects, report.bytes, report.copied, report.copied_bytes) == (6, total, 6, total)
    assert report.verified_bytes == (total if verify else 0)
    assert not report.changed
    assert not report.different


async def test_a_second_run_does_what_is_missing(small_reads):
    source = source_of(a=b"a" * 25, b=b"b" * 25, c=b"c" * 25)
    target = Target()
    target.provider.objects.update(a=bytearray(b"a" * 25), b=bytearray(b"b" * 10), other=bytearray(b"x"))
    report = await ObjectCopy(source, target, verify=True).run()
    assert contents(target.provider) == contents(source) | {"other": b"x"}
    assert (report.skipped, report.replaced, report.copied, report.only_in_target) == (1, 1, 2, 1)
    assert report.verified_bytes == 75


async def test_what_the_target_has_more_or_else_is_told_and_stays(small_reads):
    source = source_of(a=b"aaa", b=b"bbb")
    target = Target()
    target.provider.objects.update(a=bytearray(b"aaaa"), b=bytearray(b"bXb"))
    report = await ObjectCopy(source, target, verify=True).run()
    assert sorted(report.different) == [
        "a has 3 bytes, but 4 in the target",
        "b has other bytes in the target",
    ]
    assert contents(target.provider) == {"a": b"aaaa", "b": b"bXb"}


async def test_a_target_of_another_system_is_refused_untouched():
    source, target = source_of(**{IDENTITY: b"mine", "a": b"a"}), Target()
    target.provider.objects[IDENTITY] = bytearray(b"theirs")
    with pytest.raises(InvalidArgumentError, match="another system"):
        await ObjectCopy(source, target, verify=False).run()
    assert contents(target.provider) == {IDENTITY: b"theirs"}


async def test_a_part_of_our_own_identity_is_no_other_systems():
    source, target = source_of(**{IDENTITY: b"mine"}), Target()
    target.provider.objects[IDENTITY] = bytearray(b"mi")
    await ObjectCopy(source, target, verify=False).run()
    assert contents(target.provider) == {IDENTITY: b"mine"}


async def test_a_source_that_changes_is_told():
    source, target = source_of(a=b"aaa", b=b"bbb", c=b"ccc"), Target(append=False)

    def change(name, done):
        if done and name == "a":
            source.objects["a"] += b"more"
            del source.objects["c"]
            source.objects["d"] = bytearray(b"new")

    target.fail = change
    copy = ObjectCopy(source, target, verify=False)
    copy._gate = object_copy.asyncio.Semaphore(1)
    report = await copy.run()
    assert len(report.changed) == 3
    assert not report.different
    target.fail = lambda name, done: None
    again = await ObjectCopy(source, target, verify=True).run()
    assert not again.changed
    assert {name: contents(target.provider)[name] for name in source.objects} == contents(source)


@pytest.mark.parametrize("happened", [False, True])
async def test_a_create_of_unknown_outcome_is_repeated(happened):
    failures = ["a", "b", "b"]

    def fail(name, done):
        if done == happened and name in failures:
            failures.remove(name)
            raise StorageWriteError("no answer")

    source, target = source_of(a=b"a" * 25, b=b"b" * 9), Target(append=False, fail=fail)
    report = await ObjectCopy(source, target, verify=True).run()
    assert contents(target.provider) == contents(source)
    assert not report.different


async def test_a_store_that_never_takes_an_object_ends_the_run():
    def fail(name, done):
        if not done and name == "b":
            raise StorageWriteError("no answer")

    source, target = source_of(a=b"a", b=b"b", c=b"c"), Target(fail=fail)
    with pytest.raises(StorageWriteError):
        await ObjectCopy(source, target, verify=False).run()
    target.fail = lambda name, done: None
    await ObjectCopy(source, target, verify=False).run()
    assert contents(target.provider) == contents(source)


class Flaky(Target):
    """Each create fails as the next draw says: before, after, or not."""

    def __init__(self, draws, *, append):
        super().__init__(append=append, fail=self._fail)
        self.draws = iter(draws)
        self._next = None

    def _fail(self, name, done):
        if not done:
            self._next = next(self.draws, None)
        if self._next is done:
            raise StorageWriteError("no answer")


@pytest.mark.real_loop
@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_however_often_it_breaks_off_the_target_is_complete_in_the_end(data):
    contents_ = st.binary(max_size=35)
    objects = data.draw(st.dictionaries(st.sampled_from(["a", "b", "c", IDENTITY, CHUNK]), contents_))
    draws = data.draw(st.lists(st.sampled_from([None, False, True]), max_size=12))
    target = Flaky(draws, append=data.draw(st.booleans()))
    for name, content in objects.items():
        if name != IDENTITY and data.draw(st.booleans()):
            target.provider.objects[name] = bytearray(content[: data.draw(st.integers(0, len(content)))])
    source = source_of(**objects)
    for _ in range(len(draws) + 1):
        try:
            report = asyncio.run(ObjectCopy(source, target, verify=True).run())
        except StorageWriteError:
            continue
        assert contents(target.provider) == objects
        assert not report.changed
        assert not report.different
        return
    pytest.fail("it never ended")


@given(st.integers(0, 5), st.none() | st.integers(0, 5))
def test_nothing_is_skipped_that_differs_and_nothing_longer_is_lost(length, there):
    step = decide(length, there)
    assert (step is Step.SKIP) == (length == there)
    assert (step is Step.CONFLICT) == (there is not None and there > length)
    assert (step is Step.COPY) == (there is None)
