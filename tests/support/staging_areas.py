"""A staging area that behaves like the real one, except for the methods that a test overrides."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from platform_defs.engine.staging.staging import PostgresRecording, PostgresStaging


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
