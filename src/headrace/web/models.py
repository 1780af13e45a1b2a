"""The JSON objects that every process answers with, by their types. Pure.

Names in JSON are these in camel case.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class Model(Struct, rename="camel"):
    """A JSON object."""


class HealthStatus(Model):
    """The state of the process, or of one of its parts: UP, STARTING or DOWN."""

    name: str
    status: str
    readiness: bool
    liveness: bool
    details: dict[str, str]
    children: dict[str, HealthStatus]


class Refusal(Model, omit_defaults=True):
    """Why something was not done; ``field`` names the member or option that it is about, if it is one."""

    error: str
    field: str = ""


class OptimiserRequest(Model):
    """Whether the merging of small chunks pauses."""

    paused: bool


class ContainerOptimiser(Model):
    """The merging of small chunks in one container."""

    container: int
    state: str
    rounds: int
    rounds_failed: int
    candidates_left: int
    rewrites: int
    chunks_replaced: int
    chunks_made: int
    bytes_rewritten: int
    bytes_given_back: int


class UnansweredStore(Model):
    """A segment store that does not answer, and why."""

    store: str
    address: str
    why: str


class OptimiserStatus(Model):
    """The merging of small chunks."""

    mode: str
    paused: bool
    containers: list[ContainerOptimiser]
    unanswered: list[UnansweredStore] | UnsetType = UNSET
    """Stores of the cluster that are not in the answer."""
