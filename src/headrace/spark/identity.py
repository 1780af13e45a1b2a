"""Which batch of which query a task writes: what makes a repeated batch recognisable."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from headrace.errors import PreconditionError
from headrace.model.names import SINGLE_BATCH_QUERY
from headrace.runtime.entropy import SystemEntropy

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class BatchIdentity:
    """``sink`` names the memory of the destination, ``query`` the execution that numbers the batches."""

    sink: str
    query: str
    batch: int


def streaming_identity(app_id: str) -> BatchIdentity:
    """Return the identity of the micro-batch that the current task belongs to.

    The query id is part of the checkpoint, so it stays the same over restarts; a deleted checkpoint makes a
    new query, even if the application chose the sink's name.

    Raises:
        PreconditionError: Spark does not say; its names for these two properties may have changed.
    """
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    batch = None if context is None else context.getLocalProperty(_BATCH_ID)
    if not query or batch is None:
        raise PreconditionError(
            "Spark does not say which query and batch a task belongs to; without that a repeated batch "
            "cannot be recognised: set exactly_once=false to append anyway"
        )
    return BatchIdentity(app_id or query, query, int(batch))


def batch_job_identity(app_id: str, version: int) -> BatchIdentity:
    """Return the identity of a batch job: the application's, or one of its own that nothing else has.

    The latter cannot be repeated once the job is over, and its query says so: the controller may forget it.
    """
    if app_id:
        return BatchIdentity(app_id, app_id, version)
    return BatchIdentity(f"job-{SystemEntropy().uuid4_bytes().hex()}", SINGLE_BATCH_QUERY, version)
