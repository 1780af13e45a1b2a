"""What every test may rely on, however the run was started."""

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings

from headrace.errors import UnsupportedError
from headrace.local_cluster.zookeeper import find_java
from headrace.runtime.collector import tune_collector
from headrace.testing import LocalServer
from tests import small_servers
from tests.compiled_once import compiled_once
from tests.cpu_seconds import SHOWN_S, CpuSeconds
from tests.effort import is_quick
from tests.servers import CLUSTER, kinds

settings.load_profile("check")  # unless --hypothesis-profile names another one
LocalServer.popen = small_servers.Popen
os.environ["HEADRACE_CONTEXT"] = ""  # what a person has named on this machine is not meant by tests

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background of a shell ignores interrupts, and so would every process that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Tests of Spark come first, then those of ZooKeeper: the worker that has them keeps them, and few others
    start Java for a few.

    A session starts in a young process, too (tests/spark/conftest.py says why that is good).
    """
    items.sort(
        key=lambda item: ("tests/spark/" not in item.path.as_posix(), "zookeeper" not in item.fixturenames)
    )


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory):
    """A ZooKeeper server, one for all tests of this process; a test takes a root of its own."""
    from headrace.testing.zookeeper_server import ZooKeeperServer
    from tests.zookeeper_cluster import first_session

    try:
        server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), session_ms_max=20_000)
    except UnsupportedError as error:
        pytest.skip(str(error))
    with server:
        # The first session of a young Java takes longer than most tests have patience for.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, first_session(server.port)).result()
        yield server


def pytest_generate_tests(metafunc):
    if "server_kind" in metafunc.fixturenames:  # not sooner: the profile of hypothesis is known by now
        metafunc.parametrize("server_kind", kinds(), indirect=True, scope="session")


@pytest.fixture(scope="session")
def server_kind(request):
    """What kind of server a test of clients is to start."""
    if request.param == CLUSTER:
        try:
            find_java()
        except UnsupportedError as error:
            pytest.skip(str(error))
    return request.param


_cpu_seconds = CpuSeconds()


def pytest_addoption(parser):
    parser.addoption("--cpu-top", type=int, default=0, metavar="N", help="show the N tests that use most CPU")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    with _cpu_seconds.collection():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    if not isinstance(collector, pytest.Module):
        return (yield)
    with compiled_once(collector.path):
        return (yield)


def pytest_collection_finish():
    """Do not go through fourteen thousand tests and all modules each time a test has made some objects."""
    tune_collector()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with _cpu_seconds.counted(item.nodeid):
        return (yield)


def pytest_sessionfinish(session):
    """Hand the sums of a process of xdist to the one that prints them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cpu_seconds"] = _cpu_seconds.sums()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    if sums := getattr(node, "workeroutput", {}).get("cpu_seconds"):
        _cpu_seconds.add(sums)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.getoption("cpu_top"):
        terminalreporter.section("CPU seconds of the dearest tests")
        for line in _cpu_seconds.dearest(count):
            terminalreporter.write_line(line)
    if _cpu_seconds.by_folder.total() >= SHOWN_S:
        terminalreporter.section("CPU seconds by folder")
        for line in _cpu_seconds.lines(is_quick=is_quick()):
            terminalreporter.write_line(line)
