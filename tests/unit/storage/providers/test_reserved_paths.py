"""Names of segments that lie where something else lies already."""

import pytest

from headrace.data_directory.chunk_root import chunk_root, make_chunk_root, proof_of
from headrace.model.names import check_user_name, segment_name
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider


@pytest.fixture
def provider(tmp_path):
    pool = BlockingPool(2, "t")
    make_chunk_root(OsFilesystem(), chunk_root(str(tmp_path)))
    yield FilesystemChunkProvider(
        chunk_root(str(tmp_path)),
        OsFilesystem(),
        ChunkThreads.shared(pool),
        proof=proof_of(chunk_root(str(tmp_path))),
    )
    pool.close()


async def test_a_scope_of_the_name_of_the_proof_can_be_stored(provider, tmp_path):
    """Its chunks would lie below the proof, which is a file: it could never be stored, nor the log cut."""
    scope = check_user_name("PRESENT", "scope")
    name = segment_name(scope, "stream", 0) + ".5.E-1-O-0.0"
    await provider.create(name, [b"acknowledged"])
    assert bytes(await provider.read(name, 0, 12)) == b"acknowledged"
    assert [found.name async for page in provider.list() for found in page] == [name]
    assert OsFilesystem().exists(proof_of(chunk_root(str(tmp_path))))
