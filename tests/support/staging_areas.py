"""A staging area that does as the real one does, but for what a test changes of it."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from resources.postgres.batch.staging import PostgresRecording, PostgresStaging


@dataclass(frozen=True)
class ChangedArea:
    """See StagingArea. Travels to the executors."""

    area: PostgresStaging

    @property
    def staging_id(self) -> int:
        return self.area.staging_id

    def recording(self) -> AbstractContextManager[PostgresRecording]:
        return self.area.recording()

    def copy(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        return self.area.copy(batches, schema)
