"""The external systems that a batch uses."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from platform_defs.engine.interfaces.broker_and_auditor import Auditor, Broker, LineageEvents
from platform_defs.engine.interfaces.schema_finder import Schemas
from platform_defs.engine.interfaces.source_and_staging import Source
from platform_defs.engine.job.job_limit import JobLimit
from platform_defs.engine.lease.lease import PostgresLease


@dataclass(frozen=True)
class RunContext:
    """The connections and services of a run, opened by the caller (runs/open_run.py)."""

    ledger: PostgresLease
    broker: Broker
    source: Source
    spark: Callable[[], SparkSession]  # started only when there is something to read
    lineage: LineageEvents
    auditor: Auditor
    schemas: Schemas | None = None  # if messages name theirs
    limit: JobLimit = field(default_factory=JobLimit)
