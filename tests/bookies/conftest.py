"""One BookKeeper for all tests of a session; what a test breaks it mends, or it has one of its own."""

import pytest

from tests.bookies.servers import BookKeeper, why_not


def pytest_collection_modifyitems(items):
    reason = why_not()
    for item in items:
        if "tests/bookies" in str(item.path):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(300))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def bookkeeper(tmp_path_factory):
    with BookKeeper(tmp_path_factory.mktemp("bookkeeper") / "run") as servers:
        yield servers
