"""What a simulation can die of. None of these belongs to the product's error families: they judge it."""

from __future__ import annotations


class SimulationError(AssertionError):
    """The simulated program did something that a correct program does not do."""


class DeadlockError(SimulationError):
    """Nothing is ready and no timer is set, but the program has not ended: it would wait for ever."""


class LivelockError(SimulationError):
    """Very many callbacks ran and time did not move: the program spins."""


class StalledError(SimulationError):
    """Something that must end sooner or later has not."""


class TimeLimitError(SimulationError):
    """The program needed more virtual time than the test allows."""


class ForbiddenError(SimulationError):
    """The program reached for the real world: a thread, a socket, a process, a signal."""


class UnhandledError(SimulationError):
    """An exception was not handled: a callback raised, or a task failed and was never awaited."""


class ProcessGoneError(BaseException):
    """The simulated process was killed: this code is no longer running. Never seen by the code it stops.

    Like ``KeyboardInterrupt`` it is no ``Exception``, so that no handler of the product catches it.
    """


class PowerLossError(ProcessGoneError):
    """The machine of the simulated process lost its power, at this call."""
