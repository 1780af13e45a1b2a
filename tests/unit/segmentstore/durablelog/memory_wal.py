"""A WAL in a list, driven by the test: frames become durable when the test says so."""

from collections import deque

from headrace.wal.contract import WalRecord, WalStatistics


class Frame:
    def __init__(self, capacity):
        self.view = memoryview(bytearray(capacity))
        self.length = 0
        self.address = -1


class ScriptedWal:
    """Passes frames on only on request, so that a test sees every state in between."""

    def __init__(self, frame_bytes=256, frames=8, slots=2, records=None, auto=False):
        self.frame_bytes_max = frame_bytes
        self.slots = slots
        self.pool = [Frame(frame_bytes) for _ in range(frames)]
        self.frames_total = frames
        self.waiting = deque()
        self.stored = records if records is not None else []
        self.truncated = -1
        self.epoch = 0
        self.auto = auto
        self.hook = None
        self.closed = False

    async def open(self):
        self.epoch += 1

    async def records(self):
        for address, payload in self.stored:
            if address >= self.truncated:
                yield WalRecord(address, memoryview(payload))

    def acquire_frame(self):
        return self.pool.pop() if self.pool else None

    def prepare_frames(self, count):
        """They are there."""

    def release_frame(self, frame):
        self.pool.append(frame)
        if self.hook:
            self.hook()

    @property
    def frames_free(self):
        return len(self.pool)

    @property
    def slots_free(self):
        return self.slots - len(self.waiting)

    @property
    def write_seconds_last(self):
        return self.statistics().write_seconds_last

    def append(self, frame, done):
        frame.address = (self.stored[-1][0] if self.stored else 0) + len(self.waiting) + 1
        self.waiting.append((frame, done))
        if self.auto:
            import asyncio

            asyncio.get_running_loop().call_soon(self.step)

    def step(self, error=None):
        """Let the oldest frame become durable (or fail)."""
        frame, done = self.waiting.popleft()
        if error is None:
            self.stored.append((frame.address, bytes(frame.view[: frame.length])))
        done(frame, error)

    def set_on_frame_free(self, hook):
        self.hook = hook

    async def separate(self):
        """Every record lies apart."""

    async def truncate(self, address):
        self.truncated = address

    async def close(self):
        self.closed = True

    def statistics(self):
        return WalStatistics(frames_free=len(self.pool), frames_in_flight=len(self.waiting))
