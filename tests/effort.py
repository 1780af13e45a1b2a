"""How much a run of the tests tries, as ``--hypothesis-profile`` says: ``dev`` is a look while one types
(``make quick``), ``check`` what automation runs (``make test``), ``night`` the long form
(``make soak``). Each takes its part of the numbers that stand in the tests.
"""

import pytest
from hypothesis import HealthCheck, settings

_PROFILES = {"dev": 0.1, "check": 0.25, "night": 10.0}

for _name, _part in _PROFILES.items():
    # Neither a deadline nor slow generation judges anything: both are wall clock.
    settings.register_profile(
        _name,
        max_examples=int(100 * _part),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def _share() -> float:
    return settings.default.max_examples / 100


def examples(count):
    """How many examples, seeds or rounds of ``count`` to try."""
    return max(1, round(count * _share()))


def without_long(numbers, long):
    """The numbers, without those that take long unless this is the long form."""
    return [number for number in numbers if is_long() or number not in long]


def sampled(values, step=3):
    """Every ``step``-th of the values, from the first on; all of them in the long form.

    For cases that tell about the tests themselves, or differ little from each other.
    """
    return list(values)[:: 1 if is_long() else step]


def is_quick():
    """Whether this is the look while one types."""
    return _share() < _PROFILES["check"]


def soak(test):
    """Leave the test to the long form: it is dear, and seldom tells what a cheap one beside it does not."""
    return pytest.mark.skipif(not is_long(), reason="takes long: make soak")(test)


def is_long():
    """Whether this is the long form."""
    return _share() > 1


def seeds(count, first=0):
    """The numbers of the examples of ``count``, from ``first`` on."""
    return range(first, first + examples(count))


def stride(step):
    """Every which place to try instead of every ``step``-th; by night each."""
    return max(1, round(step / _share()))
