"""How much a log over BookKeeper has in flight, and when it leaves a ledger."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import MIB
from headrace.runtime.settings import internal


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLogConfig:
    """Of one log; its frames have a ``WalConfig``."""

    window: int = internal(4)
    """Frames that are in flight before others wait behind them."""

    ledger_bytes_max: int = internal(128 * MIB)
    """Content after which the next ledger is begun. Truncation frees whole ledgers."""

    behind_bytes_max: int = internal(32 * MIB)
    """So many acknowledged bytes a bookie may have yet to get, before it is given up."""

    answer_s: float = internal(5.0)
    """A bookie that leaves an entry without an answer for so long is given up."""

    pause_s: float = internal(0.2)
    """Between two attempts to go on in another ledger."""

    patience_s: float = internal(60.0)
    """So long frames wait for enough bookies, before they fail."""

    full_check_s: float = internal(5.0)
    """How often a log that has fewer bookies than wanted looks for more."""

    drain_s: float = internal(1.0)
    """How long a log that is closed waits until every bookie has what enough of them have."""
