"""The contract of all logs, over real bookies."""

import pytest

from headrace.runtime.context import system_runtime
from headrace.testing.conformance.wal import LogsContract, WalContract
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.stores import make_logs
from tests.bookies.real_logs import log_place
from tests.unit.wal.world import SMALL


class Kit:
    config = LedgerLogConfig()

    @pytest.fixture(autouse=True)
    async def _storage(self, bookkeeper):
        self.place = log_place(bookkeeper, config=self.config)
        self.made = []
        yield
        for logs in self.made:
            await logs.close()

    def make_logs(self):
        self.made.append(make_logs("", system_runtime(), SMALL, place=self.place))
        return self.made[-1]


class TestWal(Kit, WalContract):
    truncation_granularity_bytes = Kit.config.ledger_bytes_max

    def make_wal(self):
        logs = self.made[-1] if self.made else self.make_logs()
        return logs.make_wal(3)


class TestWalOfSmallLedgers(TestWal):
    config = LedgerLogConfig(ledger_bytes_max=1000)
    truncation_granularity_bytes = 1000


class TestLogs(Kit, LogsContract):
    pass
