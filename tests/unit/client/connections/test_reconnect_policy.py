from headrace.client.reconnect_policy import ReconnectPolicy, Reconnects


def test_delays_grow_to_their_maximum_and_keep_at_least_a_half():
    policy = ReconnectPolicy(initial_s=0.001, multiplier=10, delay_max_s=1.0)
    assert [policy.delay_s(failures, 1.0) for failures in (1, 2, 3, 4, 5, 1000)] == [
        0.001,
        0.01,
        0.1,
        1,
        1,
        1,
    ]
    assert policy.delay_s(2, 0.0) == 0.005


def test_a_flow_gives_up_after_its_time_and_starts_anew_after_a_success():
    patience = Reconnects(ReconnectPolicy(initial_s=1, multiplier=1, delay_max_s=1, give_up_s=3))
    assert patience.on_failure(10.0, 1.0) == 1
    assert patience.on_failure(12.0, 1.0) == 1
    assert patience.on_failure(12.5, 1.0) is None
    patience.on_success()
    assert patience.failures == 0
    assert patience.on_failure(50.0, 1.0) == 1
