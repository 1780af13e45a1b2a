import os

from headrace.runtime.context import system_runtime


async def test_the_real_surroundings_work_together(tmp_path):
    runtime = system_runtime()
    pool = runtime.threads.pool(1, "disk")
    fd = await pool.run(runtime.filesystem.open, str(tmp_path / "x"), os.O_RDWR | os.O_CREAT)
    assert await pool.run(runtime.filesystem.pwrite, fd, runtime.entropy.token(8), 0) == 8
    runtime.filesystem.close(fd)
    pool.close()
    await pool.wait_closed()
    assert runtime.clock.now_ms() > 1_600_000_000_000
