"""Does every table hold exactly what its topic says? Found out without the engine, message by message.

1 snapshot  one REPEATABLE READ transaction sees positions, tables, dead letters     snapshot.py
2 messages  a plain consumer reads the topic up to the snapshot's positions          messages.py
3 judge     each message is a row, or no row and why                                 judge.py, values.py
4 expected  the rows that the table must hold for it, through the transform          expected.py
5 compare   offset by offset; upserts by key; accumulates recomputed                 compare.py, upserts.py, ...
6 report    counts and places                                                        report.py
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql import SparkSession

from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput
from platform_defs.verification.accumulates import Accumulated
from platform_defs.verification.compare import AppendComparison, DeadLetters
from platform_defs.verification.expected import Expected
from platform_defs.verification.judge import Judge
from platform_defs.verification.messages import Topic
from platform_defs.verification.report import Findings, Report
from platform_defs.verification.snapshot import Ordered, Partition, Snapshot, take_snapshot
from platform_defs.verification.spans import size, tiling
from platform_defs.verification.upserts import UpsertComparison
from resources.endpoints import Endpoints

CHUNK = 50_000  # messages in memory at once ...
TRANSFORMED = 100_000  # ... and where each chunk costs a Spark job

Progress = Callable[[int, int], None]  # messages done, of about how many


def verify(
    pipeline: Pipeline,
    endpoints: Endpoints,
    spark: Callable[[], SparkSession] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compare the pipeline's tables with its topic. Runs beside the pipeline; writes nothing.

    `spark` is asked for a session only when the pipeline has a transform; without it one is started.
    Raises BadInput when topic or ledger is missing or the topic is another one, BrokerAway and LedgerAway.
    """
    started = time.monotonic()
    findings = Findings(pipeline.name)
    with take_snapshot(endpoints.postgres_url, pipeline.contract) as snapshot:
        if not snapshot.partitions:
            return findings.report(time.monotonic() - started, "")
        for table in pipeline.contract.tables:
            if not snapshot.exists(table):
                raise BadInput(
                    f"table {table.name} does not exist, although the ledger says that it was filled", field=table.name
                )
        with closing(Topic(endpoints.kafka_options(), pipeline.contract.topic)) as topic:
            _same_topic(topic, snapshot)
            for part in snapshot.partitions.values():
                _coverage(part, findings)
            _compare(
                pipeline, snapshot, topic, findings, spark or _start_spark, progress or (lambda _done, _total: None)
            )
            _same_topic(topic, snapshot)
        return findings.report(time.monotonic() - started, snapshot.digest())


def _compare(
    pipeline: Pipeline,
    snapshot: Snapshot,
    topic: Topic,
    findings: Findings,
    spark: Callable[[], SparkSession],
    progress: Progress,
) -> None:
    contract = pipeline.contract
    table, judge, dead = contract.row_table, Judge(contract), DeadLetters(snapshot.dead_letters())
    lows = {number: topic.low(number) for number in snapshot.partitions}
    if table.disposition == "upsert":
        upserts = UpsertComparison(contract, judge, dead, findings)
        _read(upserts, snapshot, topic, lows, CHUNK, progress)
        upserts.table(_tables(snapshot.rows(table)))
        findings.count("unverifiable", _count(snapshot.rows_of_lost_history(table)))
        return
    accumulated = [Accumulated(item, table) for item in contract.accumulates]
    for batch in snapshot.rows_of_lost_history(table):
        findings.count("unverifiable", batch.num_rows)
        for item in accumulated:
            item.add(pa.Table.from_batches([batch]))
    comparison = AppendComparison(
        judge,
        Expected(pipeline, spark),
        snapshot.rows(table),
        dead,
        accumulated,
        findings,
        one_row_each=pipeline.transform is None,
    )
    _read(comparison, snapshot, topic, lows, CHUNK if pipeline.transform is None else TRANSFORMED, progress)
    for item in accumulated:
        item.compare(snapshot, findings)


def _read(
    comparison: AppendComparison | UpsertComparison,
    snapshot: Snapshot,
    topic: Topic,
    lows: dict[int, int],
    chunk: int,
    progress: Progress,
) -> None:
    total, done = sum(part.next - max(part.start, lows[part.number]) for part in snapshot.partitions.values()), 0
    for part in sorted(snapshot.partitions.values(), key=lambda item: item.number):
        for count in comparison.partition(part, topic, chunk, lows[part.number]):
            done += count
            progress(done, total)
    comparison.strays(2**31 - 1, 2**62)


def _coverage(part: Partition, findings: Findings) -> None:
    """Committed batches and declared skips lie over [start, next) without a hole, and once."""
    tiles = tiling([*part.covered, *part.skips], part.start, part.next)
    for start, until in tiles.holes:
        what = f"the position is past [{start}, {until}), which no committed batch read"
        findings.bad("uncovered", what, part.number, start, until - start)
    for start, until in tiles.twice:
        findings.bad("duplicated", f"[{start}, {until}) was committed twice", part.number, start, until - start)
    for start, until in tiles.outside:
        what = f"a batch committed [{start}, {until}), but the position stands at {part.next}"
        findings.bad("uncovered", what, part.number, start, size([(start, until)]))


def _same_topic(topic: Topic, snapshot: Snapshot) -> None:
    topic_id = topic.topic_id()
    for part in snapshot.partitions.values():
        if part.topic_id != topic_id:
            raise BadInput(
                f"topic {topic.topic} was deleted and created again: the tables were filled from "
                f"{part.topic_id}, it is now {topic_id}. The next run halts; what settles it: tidegate ack "
                f"{snapshot.contract.pipeline}"
            )


def _tables(rows: Ordered) -> Iterator[pa.Table]:
    while (batch := rows.next()) is not None:
        yield pa.Table.from_batches([batch])


def _count(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _start_spark() -> SparkSession:
    from resources.spark.session import spark_config, start_session  # imports Dagster: only where it is needed

    return start_session(spark_config())
