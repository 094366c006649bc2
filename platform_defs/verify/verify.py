"""Verification that every table matches its topic exactly: without the engine, message by message.

It covers everything, in one snapshot. incremental.py does the same for new batches, in windows.

1 snapshot  one REPEATABLE READ transaction sees positions, tables, dead letters     snapshot.py
2 messages  a plain consumer reads the topic up to the snapshot's positions          messages.py
3 validate  each message is a row, or has a reason for none                          validator.py, framed.py, values.py
4 expected  the rows that the table must have for it, through the transform          expected.py
5 compare   offset by offset; upserts by key; accumulates recomputed                 appends.py, upserts.py, ...
6 report    counts and samples                                                       report.py
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa

from platform_defs.contract.model.classified import classified
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.digest import transform_digest
from platform_defs.contract.model.offered_columns import named_columns
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.verify.compare.accumulates import Accumulated
from platform_defs.verify.compare.appends import AppendComparison, Step, VersionValidation
from platform_defs.verify.compare.chunk_validator import ChunkValidator
from platform_defs.verify.compare.dead_letters import DeadLetters
from platform_defs.verify.compare.expected import Expected
from platform_defs.verify.compare.keyed import KeyedValidator
from platform_defs.verify.compare.metadata import MetadataValidator
from platform_defs.verify.compare.report import Findings, Report
from platform_defs.verify.compare.upserts import UpsertComparison
from platform_defs.verify.source.ahead import ahead, threads_of
from platform_defs.verify.source.messages import Topic
from platform_defs.verify.source.partitions import Partition, Pinned
from platform_defs.verify.source.snapshot import Snapshot, take_snapshot
from platform_defs.verify.source.spans import format_span, size, tiling
from platform_defs.verify.validators.framed import validator_of
from platform_defs.verify.validators.key_validators import key_validator_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from platform_defs.stack.endpoints import Endpoints

CHUNK = 50_000  # messages that are compared at once ...
TRANSFORMED = 100_000  # ... and with a transform, since each chunk costs a Spark job
AHEAD = 2  # chunks that are read and validated while one is compared: so many more are in memory

OTHER_TRANSFORM = "; its batch was produced by a different transform from the current one (a replay rebuilds it)"
NOT_NAMED = (
    "; its batch does not name its contract, because it is older than the ledger's contract history, so the oldest "
    "recorded contract was used, which may be the wrong one"
)

Progress = Callable[[int, int], None]  # messages done, of about how many


def verify(
    pipeline: Pipeline,
    endpoints: "Endpoints",
    spark: "Callable[[], SparkSession] | None" = None,
    progress: Progress | None = None,
    *,
    hides: Contract | None = None,
) -> Report:
    """Compare the pipeline's tables with its topic. It runs alongside the pipeline and writes nothing.

    `spark` is called for a session only if the pipeline has a transform; by default one is started. Values that
    `hides` classifies, by default the pipeline's contract, are not shown, nor those of the one in force. Raises
    BadInput if the topic, the ledger or a table is missing, the topic was created again or the contract names another
    one, BrokerAway and LedgerAway.
    """
    started = time.monotonic()
    findings = Findings.of(hides or pipeline.contract)
    with take_snapshot(endpoints.postgres_url, pipeline.contract) as snapshot:
        if not snapshot.partitions:
            return findings.report(time.monotonic() - started, "")
        with open_topic(snapshot, endpoints, pipeline, findings, progress or (lambda _done, _total: None)) as compared:
            if snapshot.contract.row_table.disposition == "upsert":
                compared.upserts()
            else:
                compared.appends(pipeline, spark or start_spark)
        return findings.report(time.monotonic() - started, snapshot.digest())


@dataclass(frozen=True)
class Compared:
    """A topic and the snapshot of its tables, while they are compared."""

    snapshot: Snapshot
    topic: Topic
    findings: Findings
    progress: Progress

    def keys(self) -> UpsertComparison:
        """Read the topic. Return the newest messages of an upsert's keys, not yet compared with rows."""
        dead = DeadLetters(self.snapshot.dead_letters())
        upserts = UpsertComparison(self.snapshot.versions, cache(self._keyed_validator), dead, self.findings)
        self._read(upserts, CHUNK)
        return upserts

    def upserts(self) -> None:
        """Compare every key of an upsert."""
        upserts, table = self.keys(), self.snapshot.contract.row_table
        batches = iter(self.snapshot.rows(table).next, None)
        upserts.table(pa.Table.from_batches([batch]) for batch in batches)
        lost = self.snapshot.rows_of_lost_history(table)
        self.findings.count("unverifiable", sum(batch.num_rows for batch in lost))

    def appends(self, pipeline: Pipeline, spark: "Callable[[], SparkSession]") -> None:
        """Compare an append table, and the accumulates made from its rows."""
        contract = self.snapshot.contract
        rows, in_order = contract.row_table, self.snapshot.in_order
        accumulated = [Accumulated(item, rows, partial(in_order, item)) for item in contract.accumulates]
        for batch in self.snapshot.rows_of_lost_history(contract.row_table):
            self.findings.count("unverifiable", batch.num_rows)
            for item in accumulated:
                item.add(pa.Table.from_batches([batch]))
        self.rows(pipeline, spark, accumulated)
        for item in accumulated:
            item.compare(self.snapshot, self.findings)

    def rows(
        self, pipeline: Pipeline, spark: "Callable[[], SparkSession]", accumulated: Sequence[Accumulated] = ()
    ) -> None:
        """Compare the window's rows of an append table; expected rows are added to `accumulated`."""
        contract, plain = self.snapshot.contract, pipeline.transform is None
        comparison = AppendComparison(
            cache(partial(self._era, pipeline, cache(spark))),
            self.snapshot.rows(contract.row_table),
            DeadLetters(self.snapshot.dead_letters()),
            [*accumulated],
            self.findings,
            one_row_each=plain,
        )
        self._read(comparison, CHUNK if plain else TRANSFORMED)

    def _era(self, pipeline: Pipeline, spark: "Callable[[], SparkSession]", pinned: Pinned) -> VersionValidation:
        versions = self.snapshot.versions
        known, digest = pinned.transform is not None, transform_digest(pipeline)
        other = pinned.transform != digest
        doubt = OTHER_TRANSFORM if known and other else NOT_NAMED if pinned.contract is None else ""
        hides = any(one.any for one in self.findings.hidden)
        expected = Expected(pipeline, spark, versions, pinned, other_transform=other, hides=hides)
        if pipeline.transform is not None:
            spark()  # here, and not in a thread: signals are for the main thread
        return VersionValidation(self._validator(versions.contract(pinned.contract), expected.offered), expected, doubt)

    def _keyed_validator(self, pinned: Pinned) -> KeyedValidator:
        versions, schemas = self.snapshot.versions, self.snapshot.schemas
        contract = versions.contract(pinned.contract)
        return KeyedValidator(versions, pinned, self._validator(contract), key_validator_of(contract, schemas))

    def _validator(self, contract: Contract, offered: Sequence[str] = ()) -> ChunkValidator:
        """Return the validator of a contract's chunks. `offered`: columns of OFFERED that the transform names."""
        schemas, metadata = self.snapshot.schemas, None
        if contract.metadata_fields:
            metadata = MetadataValidator(contract, key_validator_of(contract, schemas))
        return ChunkValidator(contract, validator_of(contract, schemas), metadata, offered)

    def _read(self, comparison: AppendComparison | UpsertComparison, chunk: int) -> None:
        parts = sorted(self.snapshot.partitions.values(), key=lambda item: item.number)
        lows = {part.number: max(part.forgotten, self.topic.low(part.number)) for part in parts}
        total = sum(max(0, part.next - max(part.start, lows[part.number])) for part in parts)
        done = 0
        with threads_of(AHEAD) as threads:

            def steps() -> Iterator[Step]:
                for part in parts:
                    yield from comparison.steps(part, self.topic, chunk, lows[part.number], threads)
                yield comparison.strays(2**31 - 1, 2**62)

            for step in ahead(steps(), AHEAD):
                if (count := step()) is not None:
                    done += count
                    self.progress(done, total)


@contextmanager
def open_topic(
    snapshot: Snapshot, endpoints: "Endpoints", pipeline: Pipeline, findings: Findings, progress: Progress
) -> Generator[Compared]:
    """Open the topic of a snapshot, and report the faults of the ledger's ranges.

    Raises BadInput if the contract names another topic than was read, a table is missing, or the topic was created
    again since it was read, or meanwhile.
    """
    findings.hidden |= {classified(snapshot.contract)}  # the one in force counts until a declassification is applied
    _refuse_unlike(snapshot)
    contracts = snapshot.versions.contracts.values()
    headers = any(contract.wire.framing in ("header", "both") for contract in contracts)
    metadata = any(contract.metadata_fields for contract in contracts) or bool(named_columns(pipeline))
    topic = Topic(endpoints.kafka_options(), snapshot.versions.in_force.topic, headers=headers, metadata=metadata)
    with closing(topic):
        _same_topic(topic, snapshot)
        for part in snapshot.partitions.values():
            cover(part, findings)
        yield Compared(snapshot, topic, findings, progress)
        _same_topic(topic, snapshot)


def cover(part: Partition, findings: Findings) -> None:
    """Report offsets in [start, next) that batches and skips do not cover exactly once, and committed ones
    outside it.
    """
    holes, twice, outside = tiling([*part.covered, *part.skips], part.start, part.next)
    for span in holes:
        what = f"{format_span(part.number, span)} is below the position, but no committed batch read it"
        findings.bad("uncovered", what, part.number, span[0], size([span]))
    for span in twice:
        what = f"{format_span(part.number, span)} was committed twice"
        findings.bad("duplicated", what, part.number, span[0], size([span]))
    for span in outside:
        what = (
            f"{format_span(part.number, span)} was committed, but is outside the pipeline's position [{part.start}, "
            f"{part.next})"
        )
        findings.bad("uncovered", what, part.number, span[0], size([span]))


def _refuse_unlike(snapshot: Snapshot) -> None:
    was, contract = snapshot.topic, snapshot.contract
    if was != contract.topic:
        raise BadInput(
            f"the tables were filled from topic {was}, and the contract now names {contract.topic}, so they cannot be "
            f"compared. The next run will halt; `tidegate resolve {contract.pipeline}` then shows how to resolve it",
            field=contract.topic,
        )
    for table in contract.tables:
        if not snapshot.exists(table):
            message = "the table does not exist, although according to the ledger batches were written to it"
            raise BadInput(message, field=table.name)


def _same_topic(topic: Topic, snapshot: Snapshot) -> None:
    topic_id = topic.topic_id()
    for part in snapshot.partitions.values():
        if part.topic_id != topic_id:
            raise BadInput(
                f"topic {topic.topic} was deleted and created again since the tables were filled (its id was "
                f"{part.topic_id} and is now {topic_id}), so they cannot be compared. The next run will halt; "
                f"`tidegate resolve {snapshot.contract.pipeline}` then shows how to resolve it"
            )


def start_spark() -> "SparkSession":
    """Return a session for transforms."""
    from platform_defs.spark.session import spark_config, start_session  # slow: only when needed

    return start_session(spark_config())
