"""The command lines of controllers and segment stores of a local cluster, and what they inherit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.local_cluster.supervision import Kind

_WORDS: Final = {Kind.CONTROLLER: "controller", Kind.STORE: "segmentstore"}

_OF_FACTS: Final = frozenset(
    {"HEADRACE_CONTAINERS", "HEADRACE_DATA_DIR", "HEADRACE_IN_MEMORY", "HEADRACE_STORAGE"}
)
"""What the cluster says, whatever a standalone server of the same environment would do."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Of one process; 0: any free one."""

    main: int = 0
    rest: int = 0


def command_of(kind: Kind, python: str, coordinator: str, ports: Ports, ready_file: str) -> list[str]:
    """Return the command line of a controller or a store."""
    return [
        *(python, "-m", "headrace", _WORDS[kind], "--coordinator", coordinator, "--ready-file", ready_file),
        *("--port", str(ports.main), "--rest-port", str(ports.rest)),
    ]


def inherited(environment: Mapping[str, str], own: set[str], of_others: set[str]) -> dict[str, str]:
    """Return the environment of a process: each kind refuses variables that are settings of another one."""
    left_out = (of_others - own) | _OF_FACTS
    return {name: value for name, value in environment.items() if name not in left_out}


def ready_document(
    coordinator: str, told: Mapping[str, Mapping[str, Any]], ids: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the ready file says.

    Args:
        coordinator: of the cluster.
        told: by name, what the ready file of each process that is ready says.
        ids: of the stores, by address.
    """
    controllers = [each for each in told.values() if "controller" in each]
    stores = [each for each in told.values() if "segmentstore" in each]
    return {
        "coordinator": coordinator,
        "controllers": [each["controller"] for each in controllers],
        "rest": [each["rest"] for each in controllers],
        "tls": any(each.get("tls", False) for each in controllers),
        "stores": [
            {"id": ids[each["segmentstore"]], "address": each["segmentstore"], "pid": each["pid"]}
            for each in stores
            if each["segmentstore"] in ids
        ],
        "pids": {name: each["pid"] for name, each in told.items()},
    }
