"""A log in memory, and a tree on it that is reopened from its footer and truncated after every update."""

from array import array

from headrace.btree.check import check
from headrace.btree.compaction import CompactionPolicy
from headrace.btree.footer_format import FOOTER_BYTES, decode_footer, empty_root, find_footer
from headrace.btree.lookup import lookup, read_range
from headrace.btree.page_format import ABSENT, PAGE_BYTES_MAX, verify_page
from headrace.btree.update import update


class TruncatedError(Exception):
    """A read below the beginning of the log."""


class ByteLog:
    """Bytes from ``start`` to ``end``; those below are gone."""

    def __init__(self):
        self._data = bytearray()
        self.start = 0

    @property
    def end(self):
        return self.start + len(self._data)

    def read(self, offset, length):
        if offset < self.start:
            raise TruncatedError(f"{offset} is below {self.start}")
        assert offset + length <= self.end
        return bytes(self._data[offset - self.start : offset - self.start + length])

    def append(self, pieces):
        for piece in pieces:
            self._data += piece

    def overwrite(self, offset, data):
        at = offset - self.start
        self._data[at : at + len(data)] = data

    def truncate(self, offset):
        assert self.start <= offset <= self.end
        del self._data[: offset - self.start]
        self.start = offset


def run(fetch, read, key_bytes, log=None):
    """Drive a fetch to its end; ``log`` gets the pages that were asked for, one list per time."""
    answers = None
    try:
        while True:
            refs = fetch.send(answers)
            assert refs
            answers = [read(ref.offset, ref.length) for ref in refs]
            for ref, data in zip(refs, answers, strict=True):
                verify_page(ref, data, key_bytes)
            if log is not None:
                log.append(list(refs))
    except StopIteration as done:
        return done.value


class Tree:
    """A tree on a log, and the log."""

    def __init__(self, key_bytes, *, policy=CompactionPolicy(), page_bytes_max=PAGE_BYTES_MAX):  # noqa: B008
        self.log = ByteLog()
        self.root = empty_root(key_bytes)
        self.policy = policy
        self.page_bytes_max = page_bytes_max

    def run(self, fetch, log=None):
        return run(fetch, self.log.read, self.root.key_bytes, log)

    def plan(self, changes, note=b""):
        """The write that makes ``changes`` (a dict; None deletes), not yet in the log."""
        keys = sorted(changes)
        values = array("q", [ABSENT if changes[key] is None else changes[key] for key in keys])
        fetch = update(
            self.root,
            b"".join(keys),
            values,
            note=note,
            policy=self.policy,
            page_bytes_max=self.page_bytes_max,
        )
        return self.run(fetch)

    def update(self, changes, note=b""):
        write = self.plan(changes, note)
        assert self.root.end == self.log.end
        self.log.append(write.data)
        assert self.log.end == write.root.end == self.root.end + write.size
        self.root = write.root
        return write

    def reopen(self):
        """Forget the root, read it again."""
        end = self.log.end
        if end > self.log.start:
            root = decode_footer(self.log.read(end - FOOTER_BYTES, FOOTER_BYTES), end)
            assert root == self.root
            self.root = root

    def recover(self):
        """Take the last footer that is whole."""
        root = find_footer(self.log.read(self.log.start, self.log.end - self.log.start), self.log.end)
        self.root = (root or empty_root(self.root.key_bytes)).moved(self.log.end)

    def truncate(self):
        self.log.truncate(self.root.lowest)

    def get(self, *keys):
        values = self.run(lookup(self.root, b"".join(keys)))
        return [None if value == ABSENT else value for value in values]

    def read(self, first=None, last=None, count_max=1 << 40):
        key_bytes = self.root.key_bytes
        first = bytes(key_bytes) if first is None else first
        last = b"\xff" * key_bytes if last is None else last
        entries = self.run(read_range(self.root, first, last, count_max))
        keys = [entries.keys[at : at + key_bytes] for at in range(0, len(entries.keys), key_bytes)]
        return dict(zip(keys, entries.values, strict=True))

    def check(self):
        return self.run(check(self.root))
