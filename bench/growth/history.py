"""A day's batches, as runs leave them, without Spark: each is planned, staged, published and reported by the code that
runs use. Only Spark's tasks are replaced: one INSERT stages the rows instead of reading messages.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import dagster as dg
import psycopg
from dagster import AssetMaterialization, DagsterEvent, DagsterEventType, DagsterInstance, DagsterRunStatus
from dagster._core.events import StepMaterializationData

from platform_defs.contract.model.contract import CheckResult, Contract
from platform_defs.engine.commit.publish import BatchRecord, publish
from platform_defs.engine.interfaces.broker_and_auditor import Broker
from platform_defs.engine.interfaces.gaps import Gaps
from platform_defs.engine.interfaces.source_and_staging import Coverage
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.lease.lease import PostgresLease, acquire
from platform_defs.engine.staging.staging import PostgresRecording
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.published import Published
from platform_defs.lineage.events import OpenLineageEvents
from platform_defs.offsets import OffsetRange, TopicView
from platform_defs.pipelines.reporting.events import materializations
from platform_defs.pipelines.reporting.reporter import row_count
from platform_defs.postgres.connection import connect

MESSAGES = 10  # of a batch
OF_A_RUN = 50  # batches
VIEWED = "2026-11-01T10:00:00Z"


def message(offset: int) -> bytes:
    fields = {"event_id": f"e-{offset}", "visitor": "v1", "url": "https://example.org/", "viewed_at": VIEWED}
    return json.dumps(fields).encode()


@dataclass(frozen=True)
class Known(Broker):
    """The broker's state at the beginning of the day: all messages of the day are there."""

    view: TopicView

    def describe(self, topic: str, partitions: object = None, **_: bool) -> TopicView:  # noqa: ARG002  # there is one
        return self.view


@dataclass(frozen=True)
class History:
    """Writes batches of `contract` into the ledger at `url`, and reports them to `instance`."""

    url: str
    contract: Contract
    view: TopicView
    checks: Sequence[CheckResult]  # as a real batch had them
    instance: DagsterInstance
    job: dg.JobDefinition

    def write(self, batches: int) -> None:
        """Write `batches` batches, from the position on."""
        ledger, tasks = Ledger(self.url), connect(self.url, "tidegate growth")
        held = acquire(ledger.url, self.contract)
        try:
            for first in range(0, batches, OF_A_RUN):
                published = list(self._published(held, ledger, tasks, min(OF_A_RUN, batches - first)))
                self._report(published, ledger)
        finally:
            held.close()
            tasks.close()

    def _published(
        self, held: PostgresLease, ledger: Ledger, tasks: psycopg.Connection[tuple[object, ...]], count: int
    ) -> Iterator[Published]:
        events, topic = OpenLineageEvents("growth", "growth"), self.contract.topic
        (at,) = ledger.positions(self.contract.pipeline)
        for n in range(count):
            start = at.next_offset + n * MESSAGES
            held.sweep()
            pending = held.fix(self.view, [OffsetRange(topic, 0, start, start + MESSAGES)])
            area, attempt = held.open_staging(pending), uuid4()
            self._stage(tasks, area.table, start, attempt)
            recording = PostgresRecording(tasks, area.staging_id)
            with recording.transaction():
                gaps = Gaps()
                counts = (MESSAGES, MESSAGES, 0, 0)
                recording.cover(Coverage(pending.ranges[0], attempt, *counts, gaps.digest, None), gaps)
            coverage = tuple(held.coverage(area.staging_id))
            staged = Staged(pending, area.staging_id, {attempt: MESSAGES}, coverage)
            timings: dict[str, float] = {"plan": 0.05, "stage": 0.05, "audit": 0.05, "publish": 0.05}
            event = events.of_batch(self.contract, staged, self.checks)
            publish(
                held.publication(staged),
                Known(self.view),
                self.contract,
                staged,
                BatchRecord(self.checks, timings, event),
            )
            yield Published(
                pending.batch_id, self.contract.pipeline, pending.ranges, *counts, tuple(self.checks), timings
            )

    def _stage(self, tasks: psycopg.Connection[tuple[object, ...]], table: str, start: int, attempt: object) -> None:
        tasks.execute(
            f"INSERT INTO tidegate_staging.{table} (event_id, visitor, url, viewed_at, _partition, _offset, _attempt)"
            " SELECT 'e-' || n, 'v1', 'https://example.org/', %s, 0, n, %s"
            " FROM generate_series(%s::bigint, %s::bigint) AS n".encode(),
            [VIEWED, attempt, start, start + MESSAGES - 1],
        )

    def _report(self, published: Sequence[Published], ledger: Ledger) -> None:
        """Report as a run with so many batches does: its events, and a line of its log for each batch."""
        run = self.instance.create_run_for_job(self.job, status=DagsterRunStatus.SUCCESS)
        for batch in published:
            counts = {t.name: row_count(ledger, self.contract, t, batch.batch_id) for t in self.contract.tables}
            for event in materializations(self.contract, batch, {0: 0}, counts):
                self._log(run.run_id, event)
            self.instance.report_engine_event(f"batch {batch.batch_id}: {batch.messages} messages", run)
            ledger.mark_reported(batch.batch_id)

    def _log(self, run_id: str, event: AssetMaterialization) -> None:
        stored = DagsterEvent(
            DagsterEventType.ASSET_MATERIALIZATION.value,
            self.job.name,
            event_specific_data=StepMaterializationData(event),
        )
        self.instance.report_dagster_event(stored, run_id)
