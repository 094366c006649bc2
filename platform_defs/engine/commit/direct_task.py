"""Direct publication inside a Spark task: each range becomes a batch of its own, in one transaction of the task's.

    0  check    if an earlier attempt of this task published the range, there is nothing to do
    1  rows     read, decode, check, COPY into the table; not visible yet
    2  proof    at the proven end of the range: dead letters and coverage, in staging
    3  log      check with the broker and the registry that log and ids are those of the plan
    4  commit   the pipeline's row is locked as its owner; then the steps of engine/commit/publish.py, and COMMIT

A system's failure is raised, and Spark retries the task. Any other failure leaves the range to staged publication,
which finds the message at fault or reports what a person has to decide; nothing of the range is committed.
"""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from platform_defs.contract.model.system_columns import BATCH_ID, copied_columns
from platform_defs.contract.redaction import redacting
from platform_defs.engine.commit import audit
from platform_defs.engine.commit.breaker import break_circuit
from platform_defs.engine.commit.direct_statements import DirectSession, DirectTransaction, PostgresDirect
from platform_defs.engine.commit.publish import STEPS, BatchRecord, read_up_to
from platform_defs.engine.commit.right_registry import refuse_switched_since, refuse_unknown
from platform_defs.engine.interfaces import crash_points
from platform_defs.engine.interfaces.broker_and_auditor import Broker, LineageEvents
from platform_defs.engine.interfaces.source_and_staging import Coverage, Recording
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.plan.topic_view import describe
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.engine.task.task import TaskWork, fitting, read_range
from platform_defs.errors import Fenced, LogTruncated, Retryable, TidegateError
from platform_defs.formats.blocks.arrow import ArrowField, columns_of, integers, record_batch, repeated, schema_of
from platform_defs.offsets import OffsetRange, still_there

LEFT = "number bigint, why string"


@dataclass(frozen=True)
class Direct:
    """The inputs of a direct job's tasks besides their TaskWork. Travels to the workers."""

    area: PostgresDirect
    broker: Broker
    lineage: LineageEvents


def publish_ranges(direct: Direct, work: TaskWork, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Publish each range whose number arrives. Return to the driver the numbers left to staged publication, with the
    reason.
    """
    left: dict[int, str] = {}
    decoder = BlockDecoder(work.contract, work.schemas)
    with work.area.recording() as recording, direct.area.session() as session:
        for number in (one for batch in numbers for one in integers(columns_of(batch)[0])):
            one_range = _Range(direct, work, work.ranges[number], session)
            try:
                with redacting(work.contract):
                    one_range.publish(recording, decoder)
            except TidegateError as error:
                if isinstance(error, Retryable) and not isinstance(error, LogTruncated):
                    raise
                left[number] = f"{type(error).__name__}: {error}"
    yield pa.record_batch([pa.array(left.keys(), pa.int64()), pa.array(left.values(), pa.string())], ["number", "why"])


@dataclass
class _Range:
    """One range of a job, on its way into the table."""

    direct: Direct
    work: TaskWork
    wanted: OffsetRange
    session: DirectSession

    def publish(self, recording: Recording, decoder: BlockDecoder) -> None:
        if self.session.is_published(self.wanted):  # 0.
            return
        try:
            with self.session.transaction(self.wanted) as transaction:
                self._fill(transaction, recording, decoder)
        except Fenced:  # another attempt at the range, whose COMMIT was still on its way, may have been first
            if not self.session.is_published(self.wanted):
                raise
        crash_points.reach("after_range")

    def _fill(self, transaction: DirectTransaction, recording: Recording, decoder: BlockDecoder) -> None:
        started = time.monotonic()
        read = _Covered(read_range(self.work, self.wanted, recording, decoder))
        # The row table's columns, then those for a row's origin, then its batch.
        own: list[ArrowField] = [pa.field(name, kind.arrow) for name, kind in copied_columns()]
        schema = schema_of(self.work.contract.row_table.staged_schema, own)
        rows = transaction.copy((self._row_batch(one, transaction.batch_id, schema) for one in read), schema)  # 1. 2.
        staged = transaction.staged(read.coverage, rows, self.work.schemas.registry if self.work.schemas else "")
        contract, reached = self.work.contract, read_up_to(staged)  # 3.
        view = describe(self.direct.broker, contract.topic, reached, others=False)  # n tasks, n partitions
        still_there(contract.pipeline, reached, view)
        refuse_switched_since(contract, self.work.schemas, staged)
        self._commit(transaction, staged, {"copy": round(time.monotonic() - started, 3)})

    def _commit(self, transaction: DirectTransaction, staged: Staged, timings: dict[str, float]) -> None:
        """4. Run every step but COMMIT, which comes on leaving the transaction. The limit of dead letters is checked
        under the lock, with those of all ranges that have committed so far.
        """
        contract = self.work.contract
        refuse_unknown(contract, self.work.schemas, self.session.faults, staged)
        faults = self.session.faults(staged) if staged.dead_letters else []
        checks = audit.row_checks(contract, faults, staged.messages)
        record = BatchRecord(checks, timings, self.direct.lineage.of_batch(contract, staged, checks))
        publication = transaction.publication(staged)
        lock, *others = STEPS
        lock.run(publication, record)
        break_circuit(contract, publication.staged, faults)
        for step in others:
            step.run(publication, record)

    def _row_batch(self, batch: pa.RecordBatch, batch_id: int, schema: pa.Schema) -> pa.RecordBatch:
        crash_points.reach("in_copy")
        return record_batch([*fitting(batch, schema), repeated(batch_id, BATCH_ID[1].arrow, batch.num_rows)], schema)


class _Covered:
    """The rows of a range and, once all are taken, its coverage."""

    def __init__(self, batches: Generator[pa.RecordBatch, None, Coverage]) -> None:
        self.batches = batches
        self.coverage: Coverage

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.coverage = yield from self.batches
