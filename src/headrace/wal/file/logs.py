"""The logs of a system in files: a directory per log, in one directory of all logs."""

from __future__ import annotations

import re
from os.path import dirname
from typing import Final

from headrace.runtime.context import Runtime
from headrace.runtime.filesystem import Filesystem
from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal
from headrace.wal.file.begun_log import begin_log
from headrace.wal.file.file_wal import FileWal
from headrace.wal.file.inspection import inspect_log
from headrace.wal.file.log_snapshot import FileLogSnapshot
from headrace.wal.file.owner_record import OWNER_FILE
from headrace.wal.file.segment_format import parse_name
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.loop_writes import LoopWrites

_LOG_DIRECTORY: Final = re.compile(r"container-(0|[1-9][0-9]*)")


class FoundFileLog:
    """A ``FoundLog`` in ``directory``."""

    def __init__(self, directory: str, files: Filesystem) -> None:
        self._directory = directory
        self._files = files

    @property
    def place(self) -> str:
        return self._directory

    def is_begun(self) -> bool:
        """See ``FoundLog.is_begun``: there are files of it, or an owner file that names some.

        Its directory may be an empty disk, or one whose files were moved.
        """
        names = self._files.listdir(self._directory) if self._files.exists(self._directory) else []
        if any(map(parse_name, names)):
            return True
        if OWNER_FILE not in names:
            return False
        found = inspect_log(self._directory, self._files)
        return bool(found.named) or (found.owner is not None and found.owner.files_epoch > 0)

    def snapshot(self) -> FileLogSnapshot:
        return FileLogSnapshot(self._directory, self._files)


class FoundFileLogs:
    """``FoundLogs`` in ``directory``, which need not be there."""

    def __init__(self, directory: str, files: Filesystem) -> None:
        self._directory = directory
        self._files = files

    def numbers(self) -> list[int]:
        names = self._files.listdir(self._directory) if self._files.exists(self._directory) else []
        return sorted(int(match[1]) for name in names if (match := _LOG_DIRECTORY.fullmatch(name)))

    def log(self, container: int) -> FoundFileLog:
        return FoundFileLog(self._path(container), self._files)

    def _path(self, container: int) -> str:
        return f"{self._directory}/container-{container}"


class FileLogs(FoundFileLogs):
    """``Logs`` in ``directory``, whose directory exists.

    ``frames``: memory of all of them. ``loop_writes``: how quick their disk is; None: all writes are made by
    threads.
    """

    def __init__(
        self,
        directory: str,
        runtime: Runtime,
        config: WalConfig | None = None,
        *,
        frames: FrameMemory | None = None,
        loop_writes: LoopWrites | None = None,
    ) -> None:
        super().__init__(directory, runtime.filesystem)
        self._runtime = runtime
        self._config = config
        self._frames = frames
        self._loop_writes = loop_writes

    def make_wal(self, container: int) -> Wal:
        return FileWal(
            self._path(container),
            self._config,
            filesystem=self._files,
            clock=self._runtime.clock,
            entropy=self._runtime.entropy,
            threads=self._runtime.threads,
            frames=self._frames,
            loop_writes=self._loop_writes,
        )

    async def begin(self, container: int, container_epoch: int) -> None:
        path = self._path(container)
        for directory in (self._directory, path):
            if not self._files.exists(directory):
                self._files.mkdir(directory)
                self._files.fsync_directory(dirname(directory) or ".")  # noqa: PTH120 - paths are str here
        begin_log(path, self._files, container_epoch, self._runtime.clock, self._runtime.entropy)

    async def delete(self, container: int) -> None:
        path = self._path(container)
        if not self._files.exists(path):
            return
        for name in self._files.listdir(path):
            self._files.unlink(f"{path}/{name}")
        self._files.fsync_directory(path)
        self._files.rmdir(path)
        self._files.fsync_directory(self._directory)

    async def close(self) -> None:
        """They share nothing that is open."""
