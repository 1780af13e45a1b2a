import errno
from pathlib import Path

from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.testing.conformance.filesystem import FilesystemContract
from headrace.testing.disk import SimulatedDisk
from headrace.testing.filesystem import SimulatedFilesystem


class TestOsFilesystem(FilesystemContract):
    def make(self, directory):
        return OsFilesystem(), str(directory)

    def test_what_cannot_be_looked_at_is_not_said_to_be_missing(self):
        Path(f"{self.root}/loop").symlink_to("loop")
        for path in ("loop", "loop/below"):
            with self.refused(errno.ELOOP):
                self.files.exists(f"{self.root}/{path}")
        Path(f"{self.root}/dangling").symlink_to("none")
        self.files.close(self.new("file"))
        for path in ("dangling", "file/below"):
            assert not self.files.exists(f"{self.root}/{path}")


class TestSimulatedFilesystem(FilesystemContract):
    def make(self, directory):
        files = SimulatedFilesystem(SimulatedDisk(SeededEntropy(0)))
        files.mkdir("/data")
        return files, "/data"
