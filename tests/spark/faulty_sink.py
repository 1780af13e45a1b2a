"""The sink with faults that happen once each: a task or a commit fails, the driver's JVM is killed."""

import os
import signal
import time
from pathlib import Path

from headrace.spark.options import parse_sink
from headrace.spark.sink import StreamWriter, check_schema, write_rows
from headrace.spark.source import HeadraceDataSource


class FaultySource(HeadraceDataSource):
    @classmethod
    def name(cls):
        return "headrace_faulty"

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name
        check_schema(schema)
        return FaultyWriter(parse_sink(self.options, streaming=True), self.options["faults"])


class FaultyWriter(StreamWriter):
    def __init__(self, options, folder):
        super().__init__(options)
        self.folder = folder

    def _is_due(self, place, batch):
        """Each fault is a file ``place-batch`` that is removed when it happens."""
        try:
            (Path(self.folder) / f"{place}-{batch}").unlink()
        except FileNotFoundError:
            return False
        return True

    def _kill_driver(self):
        os.kill(int((Path(self.folder) / "jvm").read_text()), signal.SIGKILL)
        time.sleep(60)

    def write(self, iterator):
        from headrace.spark.identity import streaming_identity

        identity = streaming_identity("")
        if not self._is_due("mid_write", identity.batch):
            return super().write(iterator)

        def failing():
            yield next(iterator)
            raise OSError("a fault in the middle of a task")

        return write_rows(self._options, failing(), identity)

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        if self._is_due("before_commit", batchId):
            raise OSError("a fault before the commit")
        super().commit(messages, batchId)
        if self._is_due("lost_answer", batchId):
            raise OSError("a fault: the answer of the commit was lost")
        if self._is_due("after_commit", batchId):
            self._kill_driver()
