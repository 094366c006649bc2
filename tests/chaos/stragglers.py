"""A staging area in which one task's first copy is late: it has read its range, and COPYs after its speculative
copy.
"""

import time
from collections.abc import Iterable

import psycopg
import pyarrow as pa
from pyspark import TaskContext
from typing_extensions import override

from tests.staging_areas import ChangedArea


class LateCopy(ChangedArea):
    """See engine.ports.StagingArea."""

    @override
    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """The rows, in the first copy of the first task only when those of another copy are committed."""
        task = TaskContext.get()
        assert task is not None
        if (task.partitionId(), task.attemptNumber()) != (0, 0):
            return self.area.copy(batches, schema)
        rows = list(batches)
        partition = rows[0].column("_partition")[0].as_py()
        wait_for(self.area.url, f"SELECT 1 FROM tidegate_staging.{self.area.table} WHERE _partition = {partition}")
        return self.area.copy(rows, schema)


def wait_for(url: str, query: str, seconds: float = 60.0) -> None:
    """Until the query has a row. Raises AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(query.encode()).fetchone() is None:
            assert time.monotonic() < deadline, query
            time.sleep(0.02)
