import subprocess
import sys
import uuid

import pytest

from headrace.runtime.entropy import SeededEntropy, SystemEntropy


def draws(entropy):
    return [entropy.random(), entropy.randbelow(1000), entropy.token(7), entropy.uuid4_bytes()]


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(1)])
def test_every_source_keeps_its_ranges(entropy):
    assert all(0 <= entropy.random() < 1 for _ in range(200))
    assert {entropy.randbelow(3) for _ in range(200)} == {0, 1, 2}
    assert entropy.randbelow(1) == 0
    assert entropy.token(0) == b""
    assert len(entropy.token(33)) == 33


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(1)])
def test_identifiers_are_valid_and_distinct_uuids_of_version_4(entropy):
    ids = [uuid.UUID(bytes=entropy.uuid4_bytes()) for _ in range(100)]
    assert all(i.version == 4 and i.variant == uuid.RFC_4122 for i in ids)
    assert len(set(ids)) == 100


def test_the_same_seed_repeats_every_choice_and_another_seed_does_not():
    assert draws(SeededEntropy(5)) == draws(SeededEntropy(5))
    assert draws(SeededEntropy(5)) != draws(SeededEntropy(6))


def test_a_fork_depends_on_seed_and_name_but_not_on_what_was_drawn_before():
    fresh, used = SeededEntropy(5), SeededEntropy(5)
    used.random()
    assert draws(fresh.fork("disk")) == draws(used.fork("disk"))
    assert draws(fresh.fork("disk")) != draws(fresh.fork("network"))
    assert draws(fresh.fork("a").fork("b")) != draws(fresh.fork("b").fork("a"))


def test_a_seed_means_the_same_in_processes_with_different_hash_seeds():
    code = "from headrace.runtime.entropy import *; print(SeededEntropy('s').fork('x').token(16).hex())"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1
