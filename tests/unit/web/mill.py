"""A part of a process, for tests: a mill with a wheel and a number of turns."""

from headrace.web.metrics.metric import Kind, Metric
from headrace.web.process_parts import UP, Contributor


class Mill:
    """Has a name, a state, and something that may hinder its wheel."""

    def __init__(self, name, state=UP, hindered=""):
        self.name, self.state, self.hindered = name, state, hindered
        self.metrics = (Metric(f"{name}.turns", f"headrace_{name}_turns", Kind.COUNTER, "Turns."),)

    def status(self):
        return self.state

    def statistics(self):
        return {self.name: {"turns": 3}}

    def contributors(self):
        return [Contributor(f"{self.name}Wheel", self.state, {"water": "high"}, hindered=self.hindered)]
