"""The JSON objects that every process answers with, by their types. Pure.

Names in JSON are these in camel case.
"""

from __future__ import annotations

from msgspec import Struct


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
