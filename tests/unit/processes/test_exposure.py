import pytest

from headrace.processes.exposure import find_exposure


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost", "LOCALHOST."])
def test_a_server_for_this_machine_needs_nothing(host):
    assert find_exposure(host, encrypts=False, knows_users=False) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "fe80::1", "stream-1.example.org"])
@pytest.mark.parametrize("encrypts", [False, True])
@pytest.mark.parametrize("knows_users", [False, True])
def test_what_is_missing_is_named_with_the_options_that_add_it(host, encrypts, knows_users):
    said = find_exposure(host, encrypts=encrypts, knows_users=knows_users)
    if encrypts and knows_users:
        assert said is None
        return
    assert host in said
    assert ("TLS" in said) == ("--tls-cert" in said) == (not encrypts)
    assert ("without users" in said) == ("--users" in said) == (not knows_users)
    assert "\n" not in said
