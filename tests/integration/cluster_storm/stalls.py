"""How long what clients asked for has waited: the longest wait in the time of each strike. Pure."""

from collections import defaultdict
from statistics import median


class Stalls:
    """The longest wait for an answer, of each flow, in each period."""

    def __init__(self, now):
        self._now = now
        self._period = "calm"
        self._longest = defaultdict(lambda: defaultdict(float))
        self.answers = defaultdict(int)

    def begin(self, period):
        """What is answered from now on, and was asked before or after, counts for this one."""
        self._period = period

    def on_answer(self, flow, asked):
        self.answers[flow] += 1
        longest = self._longest[self._period]
        longest[flow] = max(longest[flow], self._now() - asked)

    def longest(self, period, prefixes=("",)):
        """Return the longest wait of flows whose name begins like that, and which it was."""
        waits = [(wait, flow) for flow, wait in self._longest[period].items() if flow.startswith(prefixes)]
        return max(waits, default=(0.0, ""))

    def of_strikes(self, prefixes):
        """Return the longest wait of each strike, ascending."""
        return sorted(self.longest(each, prefixes)[0] for each in self._longest if each != "calm")


def described(waits):
    """Return them in one line."""
    return f"longest {max(waits):.1f} s, median {median(waits):.1f} s" if waits else "none"
