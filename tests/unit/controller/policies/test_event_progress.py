"""Events that are done, postponed and retried in any order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.controller.policies.event_progress import EventProgress

STREAMS = ["a", "b", "c"]


class Progress(RuleBasedStateMachine):
    """Against lists: what arrived, in which order each stream's events are to run, and what is done."""

    def __init__(self):
        super().__init__()
        self.progress = EventProgress(100)
        self.arrived = []
        self.orders = {}
        self.running = {}
        self.done = set()

    @rule(stream=st.sampled_from(STREAMS), size=st.integers(1, 9))
    def arrive(self, stream, size):
        offset = self.progress.end
        is_first = self.progress.arrive(offset, offset + size, stream, f"event {offset}")
        assert is_first == (not self.orders.get(stream) and stream not in self.running)
        self.arrived.append((offset, offset + size))
        self.orders.setdefault(stream, []).append(offset)

    @rule(stream=st.sampled_from(STREAMS))
    def start(self, stream):
        if stream in self.running:
            return
        ticket = self.progress.start(stream)
        if not self.orders.get(stream):
            assert ticket is None
            return
        assert ticket.offset == self.orders[stream].pop(0)
        assert ticket.event == f"event {ticket.offset}"
        self.running[stream] = ticket

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data):
        stream = data.draw(st.sampled_from(sorted(self.running)))
        ticket = self.running.pop(stream)
        match data.draw(st.sampled_from(["done", "postponed", "retried"])):
            case "done":
                self.progress.complete(ticket)
                self.done.add(ticket.offset)
            case "postponed":
                self.progress.postpone(ticket)
                self.orders[stream].append(ticket.offset)
            case _:
                self.progress.retry(ticket)
                self.orders[stream].insert(0, ticket.offset)

    @invariant()
    def the_checkpoint_is_behind_everything_done_and_in_front_of_the_first_that_is_not(self):
        unfinished = [offset for offset, _ in self.arrived if offset not in self.done]
        ends = [end for _, end in self.arrived] or [100]
        assert self.progress.checkpoint == (unfinished[0] if unfinished else ends[-1])
        assert self.progress.unfinished == len(unfinished)


TestProgress = Progress.TestCase
TestProgress.settings = settings(stateful_step_count=40)
