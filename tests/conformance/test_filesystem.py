from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.testing.conformance.filesystem import FilesystemContract
from headrace.testing.disk import SimulatedDisk
from headrace.testing.filesystem import SimulatedFilesystem


class TestOsFilesystem(FilesystemContract):
    def make(self, directory):
        return OsFilesystem(), str(directory)


class TestSimulatedFilesystem(FilesystemContract):
    def make(self, directory):
        files = SimulatedFilesystem(SimulatedDisk(SeededEntropy(0)))
        files.mkdir("/data")
        return files, "/data"
