"""A process that owns a log and does what it is told, line by line; see ``test_wal_owners``.

``open`` takes the log and lists what it finds; ``append N`` appends N records one after the other; ``flood``
keeps every frame in the air until it is fenced. Answers: ``opened EPOCH``, ``found CONTENT``,
``acknowledged CONTENT``, ``failed ERROR``, ``done``.
"""

import asyncio
import sys

from headrace.errors import HeadraceError
from headrace.wal.config import WalConfig
from headrace.wal.file import FileWal

CONFIG = WalConfig(frame_bytes_max=8192, segment_file_bytes=256 * 1024, zero_step_bytes=64 * 1024)


class Owner:
    def __init__(self, directory, name):
        self.wal = FileWal(directory, CONFIG)
        self.name = name
        self.number = 0

    async def open(self):
        await self.wal.open()
        async for record in self.wal.records():
            say("found", bytes(record.payload).rstrip(b".").decode())
        say("opened", self.wal.epoch)

    async def append(self, count):
        for _ in range(count):
            answered = asyncio.get_running_loop().create_future()
            self.send(
                self.wal.acquire_frame(), lambda frame, error, to=answered: to.set_result((frame, error))
            )
            frame, error = await answered
            self.wal.release_frame(frame)
            if error is not None:
                say("failed", type(error).__name__)
                return
        say("done")

    async def flood(self):
        ended = asyncio.get_running_loop().create_future()

        def again(frame, error):
            if error is None:
                self.send(frame, again)
            elif not ended.done():
                ended.set_result(error)

        while (frame := self.wal.acquire_frame()) is not None:
            self.send(frame, again)
        say("failed", type(await ended).__name__)

    def send(self, frame, done):
        content = f"{self.name}-{self.number}"
        self.number += 1
        frame.length = 100 + self.number * 997 % 8000
        frame.view[: frame.length] = content.encode().ljust(frame.length, b".")

        def answered(frame, error):
            if error is None:
                say("acknowledged", content)
            done(frame, error)

        self.wal.append(frame, answered)


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def main(directory, name):
    owner = Owner(directory, name)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, *arguments = line.split()
        try:
            await getattr(owner, command)(*map(int, arguments))
        except HeadraceError as error:
            say("failed", type(error).__name__)
    await owner.wal.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
