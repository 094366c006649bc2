"""A staging area in which one task's first copy is late: it COPYs after its speculative copy."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark import TaskContext
from typing_extensions import override

from tests.support.staging_areas import ChangedArea
from tests.support.waiting import wait_for_row


class LateCopy(ChangedArea):
    """See StagingArea."""

    @override
    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """Copy the rows; in the first copy of the first task only after those of another copy are committed."""
        task = TaskContext.get()
        assert task is not None
        if (task.partitionId(), task.attemptNumber()) != (0, 0):
            return self.area.copy(batches, schema)
        rows = list(batches)
        partition = rows[0].column("_partition")[0].as_py()
        wait_for_row(self.area.url, f"SELECT 1 FROM tidegate_staging.{self.area.table} WHERE _partition = {partition}")
        return self.area.copy(rows, schema)
