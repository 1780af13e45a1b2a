import pytest

from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.coordination.memory import MemoryCoordinator
from headrace.errors import InvalidArgumentError
from headrace.model.endpoint import Endpoint
from headrace.runtime.blocking import SystemThreads


@pytest.mark.parametrize(
    ("uri", "servers", "root", "options", "canonical"),
    [
        ("zk://h1/r", (Endpoint("h1", 2181),), "r", (), "zk://h1:2181/r"),
        ("zk://h1/r/", (Endpoint("h1", 2181),), "r", (), "zk://h1:2181/r"),
        (
            "zk://h1:1,[::1]:2,10.0.0.1/a/b?session_s=4.50&margin_s=1",
            (Endpoint("h1", 1), Endpoint("::1", 2), Endpoint("10.0.0.1", 2181)),
            "a/b",
            (("margin_s", 1.0), ("session_s", 4.5)),
            "zk://h1:1,[::1]:2,10.0.0.1:2181/a/b?margin_s=1&session_s=4.5",
        ),
    ],
)
def test_a_uri_names_servers_and_a_root(uri, servers, root, options, canonical):
    location = CoordinatorLocation.parse(uri)
    assert location == CoordinatorLocation("zk", servers, root, options)
    assert str(location) == canonical
    assert CoordinatorLocation.parse(canonical) == location


def test_memory_is_a_place_without_parts():
    location = CoordinatorLocation.parse("memory://")
    assert location == CoordinatorLocation("memory")
    assert str(location) == "memory://"
    assert isinstance(make_coordinator(location, SystemThreads()), MemoryCoordinator)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("", "is no URI of a coordinator"),
        ("zk:", "is no URI of a coordinator"),
        ("http://h/r", "is no URI of a coordinator"),
        ("memory://x", "is no URI of a coordinator"),
        ("zk://h/r#x", "is no URI of a coordinator"),
        ("zk:///r", "names at least one server"),
        ("zk://h1,/r", "is not HOST:PORT"),
        ("zk://h1:0/r", "a port is"),
        ("zk://::1/r", "brackets"),
        ("zk://" + ",".join(["h"] * 33) + "/r", "at most 32"),
        ("zk://h1", "names the node below which"),
        ("zk://h1/", "names the node below which"),
        ("zk://h1//r", "no path of a node"),
        ("zk://h1/r/../s", "no path of a node"),
        ("zk://h1/r%41", "'%'"),
        ("zk://h1/zookeeper/r", "belongs to ZooKeeper"),
        ("zk://h1/r?session_s", "options of a coordinator's URI"),
        ("zk://h1/r?session_s=1&session_s=2", "given twice"),
        ("zk://h1/r?session_s=nan", "is a number of seconds"),
        ("zk://h1/r?session_s=1e9", "is a number of seconds"),
        ("zk://h1/r?digest=x", "has no option 'digest'"),
        ("zk://me:hidden@h1/r", "no user and no password"),
    ],
)
def test_what_is_no_place_is_refused_without_repeating_secrets(uri, said):
    with pytest.raises(InvalidArgumentError, match=said) as raised:
        CoordinatorLocation.parse(uri)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("session_s=0.1", "session_s"),
        ("session_s=100", "session_s"),
        ("margin_s=0", "margin_s"),
        ("session_s=2&margin_s=2", "leaves no lease"),
    ],
)
def test_options_have_the_range_of_their_settings(options, said):
    location = CoordinatorLocation.parse(f"zk://h1/r?{options}")
    with pytest.raises(InvalidArgumentError, match=said):
        make_coordinator(location, SystemThreads())
