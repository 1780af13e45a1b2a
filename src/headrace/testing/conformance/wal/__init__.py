"""What every write-ahead log must do: one method per sentence of ``headrace.wal.contract``.

Subclass, override :meth:`WalContract.make_wal`, and let pytest collect the class::

    class TestMemoryWal(WalContract):
        def make_wal(self) -> Wal:
            return MemoryWal(self.store, "log")

Each call must return a new, unopened instance on the *same* log, with frames of at least 256 bytes and at
least three of them. Storage belongs to one test: make it in a fixture of the subclass. Where it can be
filled, override :meth:`WalContract.fill_storage` and :meth:`WalContract.free_storage` too.
"""

from headrace.testing.conformance.wal.copies import CopyRules
from headrace.testing.conformance.wal.frames import FrameRules
from headrace.testing.conformance.wal.full_storage import FullStorageRules
from headrace.testing.conformance.wal.log_use import Appended, append_all, numbered, read_all, read_contents
from headrace.testing.conformance.wal.logs import LogsContract
from headrace.testing.conformance.wal.ownership import OwnershipRules
from headrace.testing.conformance.wal.records import RecordRules
from headrace.testing.conformance.wal.truncation import TruncationRules


class WalContract(RecordRules, FrameRules, OwnershipRules, FullStorageRules, TruncationRules, CopyRules):
    """The whole kit."""


__all__ = [
    "Appended",
    "LogsContract",
    "WalContract",
    "append_all",
    "numbered",
    "read_all",
    "read_contents",
]
