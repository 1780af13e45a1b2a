"""The next files of a log, made and named so that the loss of one would be noticed."""

from __future__ import annotations

from headrace.errors import DirectoryLockedError
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import SegmentFiles
from headrace.wal.file.segment_format import DATA_OFFSET, FileHead


class NewFiles:
    """Makes files for one owner. Belongs to the thread of its files."""

    __slots__ = ("_files", "_owner", "unnamed")

    def __init__(self, files: SegmentFiles, owner: OwnerFile) -> None:
        self._files = files
        self._owner = owner
        self.unnamed: SegmentFile | None = None
        """Made as the next file, and not named yet."""

    def create(self, head: FileHead, zeroed_until: int = DATA_OFFSET) -> SegmentFile:
        """Make a file and name it. It holds nothing before that.

        A file that could not be named is used by the next attempt, whatever number that would give it.
        """
        if self.unnamed is None:
            self.unnamed = self._files.create(head, zeroed_until)
        file = self.unnamed
        self._owner.note_newest(file.epoch, file.number)
        self.unnamed = None
        return file

    def recycle(self, old: SegmentFile, head: FileHead) -> SegmentFile | None:
        """Make a file of a truncated one. Its old name is removed while no successor reads the log.

        Returns None, and leaves the old file as it was, if the lock is taken: a record may be waiting for the
        next file, so that one is made without the old one then. The same if that one is made already.
        """
        if self.unnamed is not None:
            return None
        try:
            self._owner.run_owned(lambda: self._files.make_draft(old, head))
        except DirectoryLockedError:
            return None
        return self.create(head, old.zeroed_until)
