"""The directory of a local cluster: its data, what its processes say, and the ports that they had."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from headrace.errors import InvalidArgumentError
from headrace.local_cluster.commands import Ports

_RECORD_OF_A_SERVER: Final = "headrace.json"
_LOG_BYTES_MAX: Final = 16 << 20
"""A log that is larger makes way at the next start of its process; the one before is retained."""
_TAIL_BYTES: Final = 4096


class ClusterDirectory:
    """Paths below one directory, and small files in it."""

    def __init__(self, path: Path) -> None:
        """Make it if it is missing. Raises InvalidArgumentError: it is something else."""
        self.path = path.absolute()
        if (self.path / _RECORD_OF_A_SERVER).exists():
            raise InvalidArgumentError(
                f"{path} has the data of a standalone server, and a cluster has its own: take another one"
            )
        try:
            for each in (self.zookeeper, self._run):
                each.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InvalidArgumentError(f"{path} is no directory: a cluster needs one") from None
        self._ports = self._read_ports()

    @property
    def _run(self) -> Path:
        return self.path / "run"

    @property
    def zookeeper(self) -> Path:
        return self.path / "zookeeper"

    @property
    def log_uri(self) -> str:
        """Where the cluster has its logs."""
        return f"file://{quote(str(self.path / 'logs'))}"

    @property
    def storage_uri(self) -> str:
        """Where it has its chunks, unless they are elsewhere."""
        return f"file://{quote(str(self.path / 'chunks'))}"

    # ---- what processes say

    def log(self, name: str) -> Path:
        """Return the file with what a process says, over all its starts."""
        return self._run / f"{name}.log"

    def make_way(self, name: str) -> None:
        """Begin another log of a process if there is much in the present one."""
        log = self.log(name)
        with suppress(FileNotFoundError):
            if log.stat().st_size > _LOG_BYTES_MAX:
                log.replace(log.with_suffix(".log.1"))

    def last_words(self, name: str) -> str:
        """Return the last line of a log; empty if there is none."""
        with suppress(OSError), self.log(name).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def ready_file(self, name: str) -> Path:
        return self._run / f"{name}.json"

    def read_ready(self, name: str, pid: int) -> dict[str, Any] | None:
        """Return what the ready file of a process says; None: it is not ready."""
        with suppress(FileNotFoundError):
            told: dict[str, Any] = json.loads(self.ready_file(name).read_text())
            return told if told.get("pid") == pid else None
        return None

    # ---- ports

    def ports_of(self, name: str) -> Ports:
        """Return the ports that a process had; 0 for one that it had not."""
        return self._ports.get(name, Ports())

    def remember_ports(self, name: str, ports: Ports) -> None:
        """Raises OSError: there is no space."""
        if self._ports.get(name) != ports:
            self._ports[name] = ports
            text = json.dumps({name: astuple(each) for name, each in sorted(self._ports.items())})
            temporary = self._ports_file.with_suffix(".new")
            temporary.write_text(text + "\n")
            temporary.replace(self._ports_file)

    @property
    def _ports_file(self) -> Path:
        return self._run / "ports.json"

    def _read_ports(self) -> dict[str, Ports]:
        """What cannot be read is forgotten: other ports do as well."""
        with suppress(OSError, ValueError, TypeError, AttributeError):
            found: Mapping[str, list[int]] = json.loads(self._ports_file.read_text())
            return {str(name): Ports(*map(int, ports)) for name, ports in found.items()}
        return {}
