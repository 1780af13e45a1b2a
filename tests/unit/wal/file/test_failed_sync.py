"""A descriptor is told once that the system could not store something; all who write through it must know."""

import errno
import mmap

import pytest

from headrace.errors import WalWriteError
from headrace.wal.file.frame_write import FrameWrite
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import SegmentFiles
from headrace.wal.file.segment_format import DATA_OFFSET, TruncationMark
from headrace.wal.frame import Frame


class Files:
    """Takes every write into its cache; one sync after a failure of the disk says so, later ones do not."""

    failures = 0

    def pwrite(self, fd, data, offset):
        return len(data)

    def fdatasync(self, fd):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def files():
    return Files()


@pytest.fixture
def log(files):
    log = SegmentFiles("/log", files)
    log.direct = False
    return log


def record(log, file, address):
    frame = Frame(memoryview(mmap.mmap(-1, 8192)), 4096)
    frame.address, frame.length = address, 10
    write = FrameWrite(frame)
    write.file, write.offset = file, DATA_OFFSET
    log.write_records([write])
    return write.error


@pytest.mark.parametrize("by", ["record", "mark"])
def test_nothing_is_durable_behind_a_sync_that_failed(log, files, by):
    file = SegmentFile(1, 1, 3, 0)
    assert record(log, file, 1) is None
    files.failures = 1
    if by == "record":
        assert isinstance(record(log, file, 2), WalWriteError)
    else:
        with pytest.raises(OSError, match="Input/output"):
            log.write_mark(file, TruncationMark(bytes(16), 1, 1, 0, 1))
    error = record(log, file, 3)
    assert isinstance(error, WalWriteError)
    assert "an earlier sync failed" in str(error)
