"""The simulated file system answers every sequence of calls as the real one does, errors included."""

import os
import shutil
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.testing.disk import SimulatedDisk
from headrace.testing.filesystem import SimulatedFilesystem
from tests.effort import examples

# A few names, so that calls meet each other; "f/below" goes through a file, "d/f" through a directory.
PATHS = st.sampled_from(["f", "g", "d", "d/f", "d/e", "f/below", "none/f", ""])
FLAGS = st.sampled_from(
    [
        os.O_RDWR,
        os.O_RDONLY,
        os.O_WRONLY,
        os.O_RDWR | os.O_CREAT,
        os.O_RDWR | os.O_CREAT | os.O_EXCL,
        os.O_RDWR | os.O_CREAT | os.O_TRUNC,
        os.O_WRONLY | os.O_CREAT | os.O_DSYNC,
        os.O_RDONLY | os.O_DIRECTORY,
    ]
)
SLOTS = st.integers(0, 4)
OFFSETS = st.integers(0, 3000)
DATA = st.binary(max_size=40)

CALLS = st.one_of(
    st.tuples(st.just("open"), SLOTS, PATHS, FLAGS),
    st.tuples(st.just("close"), SLOTS),
    st.tuples(st.just("pwrite"), SLOTS, DATA, OFFSETS),
    st.tuples(st.just("pwritev"), SLOTS, st.lists(DATA, min_size=1, max_size=3), OFFSETS),
    st.tuples(st.just("read"), SLOTS, st.integers(1, 200), OFFSETS),
    st.tuples(st.just("ftruncate"), SLOTS, OFFSETS),
    st.tuples(st.just("allocate"), SLOTS, OFFSETS, st.integers(1, 3000)),
    st.tuples(st.just("size"), SLOTS),
    st.tuples(st.just("lock"), SLOTS),
    st.tuples(st.just("fsync"), SLOTS),
    st.tuples(st.sampled_from(["unlink", "rmdir", "mkdir", "listdir", "exists", "fsync_directory"]), PATHS),
    st.tuples(st.just("rename"), st.sampled_from(["f", "g", "d"]), st.sampled_from(["f", "g", "d", "h"])),
)


# Random calls alone would mostly find nothing there.
BEGINNING = [
    ("open", 0, "f", os.O_RDWR | os.O_CREAT),
    ("open", 1, "g", os.O_RDWR | os.O_CREAT),
    ("mkdir", "d"),
    ("open", 2, "d/f", os.O_WRONLY | os.O_CREAT | os.O_DSYNC),
    ("pwrite", 0, b"0123456789" * 100, 0),
]


class Player:
    """Performs calls and writes down the answers."""

    def __init__(self, files, root):
        self.files = files
        self.root = root
        self.slots = {}
        self.directories = set()

    def path(self, name):
        return f"{self.root}/{name}" if name else self.root

    def play(self, call):
        try:
            return getattr(self, f"on_{call[0]}", self.on_other)(*call)
        except OSError as error:
            return type(error).__name__, error.errno

    def on_open(self, _, slot, path, flags):
        if slot in self.slots:
            return "taken"
        self.slots[slot] = self.files.open(self.path(path), flags)
        try:
            self.files.listdir(self.path(path))
            self.directories.add(slot)
        except NotADirectoryError:
            pass
        return "opened"

    def on_close(self, _, slot):
        if slot not in self.slots:
            return "free"
        self.directories.discard(slot)
        return self.files.close(self.slots.pop(slot))

    def on_read(self, _, slot, count, offset):
        if slot not in self.slots:
            return "free"
        buffer = bytearray(count)
        return bytes(buffer[: self.files.pread_into(self.slots[slot], memoryview(buffer), offset)])

    def on_other(self, name, *arguments):
        if isinstance(arguments[0], int):
            slot, *rest = arguments
            if slot not in self.slots:
                return "free"
            if slot in self.directories and name == "size":
                return "whatever it likes for a directory"
            return getattr(self.files, name)(self.slots[slot], *rest)
        if name in {"rmdir", "unlink", "rename"} and "" in arguments:
            return "the root stays"
        return getattr(self.files, name)(*(self.path(path) for path in arguments))

    def end(self):
        for fd in self.slots.values():
            self.files.close(fd)


@settings(max_examples=examples(80))
@given(calls=st.lists(CALLS, min_size=10, max_size=40))
def test_every_sequence_of_calls_is_answered_alike(calls):
    directory = tempfile.mkdtemp()
    disk = SimulatedDisk(SeededEntropy(0))
    simulated_files = SimulatedFilesystem(disk)
    simulated_files.mkdir(directory)
    real, simulated = Player(OsFilesystem(), directory), Player(simulated_files, directory)
    try:
        for call in BEGINNING + calls:
            assert simulated.play(call) == real.play(call), call
            disk.check()
    finally:
        real.end()
        simulated.end()
        shutil.rmtree(directory)
