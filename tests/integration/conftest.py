"""What tests of real servers share."""

import pytest

from headrace.cli.check.container import examine
from headrace.cli.inspect.data import InspectedData


@pytest.fixture
def clean_end(tmp_path):
    """Afterwards nothing is damaged in the data directories that the test has left behind.

    Ask for it before a server, with ``usefixtures``: what is asked for first ends last.
    """
    yield
    for record in sorted(tmp_path.rglob("headrace.json")):
        checked = examine(InspectedData(str(record.parent)), None, deep=False)
        findings = [*checked.strays.damage, *(f for report in checked.reports for f in report.findings)]
        assert not checked.damaged, [checked.data.problem, *findings]
