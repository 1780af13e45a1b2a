"""The limit of open files, in processes of their own: it cannot be raised again once it was lowered."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from headrace.runtime.descriptors import find_limit, raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(find_limit())
raise_limit()
print(find_limit())
"""


@pytest.mark.parametrize(("soft", "hard"), [(100, 200), (150, 150)])
def test_a_process_may_use_all_that_the_system_grants(soft, hard):
    program = PROGRAM.format(soft=soft, hard=hard)
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [str(soft), str(hard)]
