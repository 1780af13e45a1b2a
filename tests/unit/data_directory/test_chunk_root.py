"""Without the file system that holds the chunks nothing is read as lost, and nothing written beside it."""

import pytest

from headrace.data_directory.chunk_root import check_chunk_root, chunk_root, make_chunk_root, proof_of
from headrace.errors import DataCorruptionError, NoSuchChunkError, StorageWriteError
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider

FILES = OsFilesystem()


@pytest.fixture
async def open_provider(tmp_path):
    pools = []

    def open_provider():
        pools.append(BlockingPool(1, "chunks"))
        threads = ChunkThreads.shared(pools[-1])
        return FilesystemChunkProvider(
            str(tmp_path / "chunks"), FILES, threads, proof=proof_of(chunk_root(str(tmp_path)))
        )

    yield open_provider
    for pool in pools:
        pool.close()
        await pool.wait_closed()


def test_a_root_that_was_made_is_right_and_may_be_made_again(tmp_path):
    for _ in range(2):
        make_chunk_root(FILES, chunk_root(str(tmp_path)))
        check_chunk_root(FILES, chunk_root(str(tmp_path)))


@pytest.mark.parametrize("left", [(), ("chunks",), ("chunks", "chunks/lost+found")])
def test_a_bare_mount_point_is_refused(tmp_path, left):
    for name in left:
        (tmp_path / name).mkdir()
    with pytest.raises(DataCorruptionError, match=r"mount their file system.*chunks/PRESENT"):
        check_chunk_root(FILES, chunk_root(str(tmp_path)))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == sorted(left)


@pytest.mark.parametrize("note", ["NOT_MOUNTED", "README.txt", "a.chunk%"])
def test_a_note_that_lies_in_a_bare_mount_point_is_no_chunk(tmp_path, note):
    """Who administers mounts leaves one there: the server would go on beside what it has stored."""
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / note).touch()
    with pytest.raises(DataCorruptionError, match=r"mount their file system.*chunks/PRESENT"):
        check_chunk_root(FILES, chunk_root(str(tmp_path)))
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == [note]


def test_a_chunk_of_an_older_version_without_a_scope_gets_its_proof(tmp_path):
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / "s.5.E-1-O-0.0.chunk").touch()
    check_chunk_root(FILES, chunk_root(str(tmp_path)))
    assert (tmp_path / "chunks" / "PRESENT").exists()


def test_chunks_of_an_older_version_get_their_proof(tmp_path):
    (tmp_path / "chunks" / "demo").mkdir(parents=True)
    check_chunk_root(FILES, chunk_root(str(tmp_path)))
    assert (tmp_path / "chunks" / "PRESENT").exists()


@pytest.mark.parametrize("mounted_at", [".", "chunks"])
async def test_nothing_is_made_where_a_file_system_was_mounted(tmp_path, open_provider, mounted_at):
    """Also by a server that has made nothing there itself, and where the root itself was mounted."""
    make_chunk_root(FILES, chunk_root(str(tmp_path)))
    await open_provider().create("a/first", [b"x"])
    provider = open_provider()
    mount, away = tmp_path / mounted_at, tmp_path.with_name("away")
    mount.rename(away)
    mount.mkdir()
    for name in ("a/second", "b/third"):
        with pytest.raises(StorageWriteError, match="mount the file system"):
            await provider.create(name, [b"y"])
    with pytest.raises(NoSuchChunkError):
        await provider.append("a/first", 1, [b"y"])
    assert not list(mount.iterdir())
    mount.rmdir()
    away.rename(mount)
    await provider.create("a/second", [b"y"])
    assert bytes(await provider.read("a/second", 0, 1)) == b"y"
