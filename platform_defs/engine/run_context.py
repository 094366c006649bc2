"""The external systems that a batch uses."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from platform_defs.engine.job.job_limit import JobLimit
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.ports.run_ports import Auditor, Broker, LineageEvents
from platform_defs.engine.ports.schema_ports import Schemas
from platform_defs.engine.ports.task_ports import Source


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
