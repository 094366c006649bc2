"""The cost of a batch beside its messages, by the number of partitions: a line fitted to few, compared with many.

    python -m bench.partitions [--write]

The code and the statements are a run's; Spark is not used, and the task makes up the messages: one in each partition.
So thousands of partitions need no such topic. Only the broker's answers are measured on real topics.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import fill
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pyarrow as pa
import typer
from confluent_kafka.admin import AdminClient, NewTopic
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from bench.ending import ended_by_signals, own_home, say, stack_up
from bench.reports.page import write_between
from bench.reports.scale_page import PAGE, markers, measured_on, table
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import plan_batch
from platform_defs.engine.commit.direct_task import publish_ranges
from platform_defs.engine.commit.publish import BatchRecord, publish
from platform_defs.engine.direct import prepare
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.job.stage import one_attempt_each
from platform_defs.engine.plan.planning import decide
from platform_defs.engine.run_context import RunContext
from platform_defs.engine.task.task import TaskWork, read_and_stage
from platform_defs.errors import TopicMissing
from platform_defs.formats.blocks.block import Block, message_blocks
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.offsets import OffsetRange, PartitionView, PendingBatch, TopicView
from platform_defs.runs.open_run import open_run
from platform_defs.settings.contracts import find_pipeline
from platform_defs.stack.endpoints import Endpoints, connection

FEW, MANY = (16, 64, 256, 1_000), (4_000, 10_000)
TOPICS = (1, 16, 64, 256, 1_000)  # partitions of real ones
ROUNDS, DIRECT = 3, 10  # batches of each number; ranges that are published directly
VALUE = b'{"event_id": "e-1", "visitor": "v", "url": "https://example.org/", "viewed_at": "2026-11-01T10:00:00Z"}'
Seconds = dict[str, list[float]]


@dataclass(frozen=True)
class MadeUp:
    """A message, with confluent_kafka's methods."""

    at: int

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return VALUE

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def headers(self) -> None:
        return None

    def leader_epoch(self) -> int:
        return 0


@dataclass
class Made:
    """A topic of so many partitions that does not exist (Broker, engine.source_and_staging.Source)."""

    partitions: int
    end: int = 0

    def describe(self, topic: str, partitions: Any = None, **_: bool) -> TopicView:
        numbers = range(self.partitions) if partitions is None else partitions
        held = PartitionView(0, self.end, 0, self.end)
        return TopicView(topic, "made up", "made up", dict.fromkeys(numbers, held))

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:  # noqa: ARG002  # the port's
        yield from message_blocks([MadeUp(at) for at in range(wanted.from_offset, wanted.until_offset)])


@dataclass
class Laps:
    """Seconds by step, for one number of partitions."""

    seconds: Seconds = field(default_factory=dict)

    def take(self, step: str, act: Callable[[], Any], share: int = 1) -> Any:
        started = time.perf_counter()
        result = act()
        self.seconds.setdefault(step, []).append((time.perf_counter() - started) / share)
        return result

    @property
    def medians(self) -> dict[str, float]:
        return {step: statistics.median(found) for step, found in self.seconds.items()}


PURE = "decide what to read (Python alone)"
PLAN = "plan: positions, decide, fix it in the ledger"
TASK = "a task, for each range: read, decode, COPY, coverage"
PROOF = "proof: coverage read and compared"
PUBLISH = "publish: the transaction"
SWEEP = "sweep"
FIRST = "the first batch of all: add the positions"
RANGE = "direct: a range, read and published"
IDS = "direct: an id for each range"
LEDGER = (PURE, PLAN, PROOF, PUBLISH, SWEEP, FIRST, IDS)
WHOLE, OWN = "all partitions", "one partition of them"


def staged(endpoints: Endpoints, partitions: int) -> Laps:
    """Measure staged batches of so many partitions."""
    contract, made, laps = _contract("staged"), Made(partitions), Laps()
    with open_run(Pipeline(contract), endpoints, _never) as held:
        context = replace(held, broker=made, source=made)
        laps.take(FIRST, lambda: plan_batch(contract, context))  # with an empty topic
        for end in range(1, ROUNDS + 1):
            made.end = end
            positions = context.ledger.positions()
            laps.take(PURE, lambda: decide(contract, positions, None, made.describe(contract.topic)))  # noqa: B023
            _batch(contract, context, laps)
    return laps


def _batch(contract: Contract, context: RunContext, laps: Laps) -> None:
    pending: PendingBatch = laps.take(PLAN, lambda: plan_batch(contract, context))
    area = context.ledger.open_staging(pending)
    work = TaskWork(contract, pending.ranges, context.source, area)
    numbers = pa.record_batch([pa.array(range(len(pending.ranges)), pa.int64())], names=["id"])
    found = laps.take(TASK, lambda: list(read_and_stage(work, iter([numbers]))), len(pending.ranges))
    winners = {UUID(row["attempt"]): row["rows"] for part in found for row in part.to_pylist()}
    stored = laps.take(PROOF, lambda: one_attempt_each(pending.ranges, context.ledger.coverage(area.staging_id)))
    done = Staged(pending, area.staging_id, winners, stored)
    record = BatchRecord((), {}, context.lineage.of_batch(contract, done, ()))
    laps.take(PUBLISH, lambda: publish(context.ledger.publication(done), context.broker, contract, done, record))
    laps.take(SWEEP, context.ledger.sweep)


def direct(endpoints: Endpoints, partitions: int) -> tuple[Laps, int]:
    """Measure a few ranges of a plan for so many partitions, published directly; return also the plan's bytes."""
    contract, made, laps = replace(_contract("direct"), publication="direct"), Made(partitions, 1), Laps()
    pipeline = Pipeline(contract)
    with open_run(pipeline, endpoints, _never) as held:
        context = replace(held, broker=made, source=made)
        pending = plan_batch(contract, context)
        assert pending is not None  # there is a message in each partition
        given, work = laps.take(IDS, lambda: prepare(pipeline, context, pending))
        some = pa.record_batch([pa.array(range(DIRECT), pa.int64())], names=["id"])
        laps.take(RANGE, lambda: list(publish_ranges(given, work, iter([some]))), DIRECT)
    return laps, len(json.dumps(pending.to_json()))


def asked(endpoints: Endpoints, partitions: int) -> Laps:
    """Measure a real broker's description of a topic with so many partitions, by turns all of it and one partition."""
    broker, topic, laps = KafkaBroker(endpoints.kafka_options()), f"asked-{partitions}", Laps()
    admin = AdminClient({**endpoints.kafka_options()})
    admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=60)[topic].result(60)
    created = Retrying(retry=retry_if_exception_type(TopicMissing), stop=stop_after_delay(30), wait=wait_fixed(0.2))
    created(broker.describe, topic)  # waits until each has a leader
    for _ in range(15):
        laps.take(WHOLE, lambda: broker.describe(topic))
        laps.take(OWN, lambda: broker.describe(topic, [0]))
    admin.delete_topics([topic])[topic].result(60)
    return laps


def _contract(kind: str) -> Contract:
    shipped, name = find_pipeline("web_page_views").contract, f"bench_{kind}_{uuid4().hex[:6]}"
    plain = replace(shipped.row_table, name=f"bench.{name}", batch_rules=())
    return replace(shipped, pipeline=name, topic=name, tables=(plain,))


def _never() -> Any:
    raise AssertionError("no Spark is used here")


def line(points: Mapping[int, float]) -> tuple[float, float]:
    """Return (seconds at none, seconds a partition) of the line that misses these points by the least share."""
    numbers, seconds = np.array(list(points)), np.array(list(points.values()))
    slope, start = np.polyfit(numbers, seconds, 1, w=1 / seconds)
    return float(start), float(slope)


def ledger_table(seen: Mapping[int, Mapping[str, float]]) -> str:
    """Return the table of milliseconds by step and number of partitions."""
    steps = (*LEDGER, TASK, RANGE)
    head = ("milliseconds, by partitions", *(f"{n:,}" for n in seen))
    return table(head, [(step, *(f"{found[step] * 1e3:,.1f}" for found in seen.values())) for step in steps])


def model_table(seen: Mapping[int, Mapping[str, float]]) -> str:
    """Return the table of the lines through the few, and the factors by which they miss the many."""
    rows = [_modelled(step, {n: found[step] for n, found in seen.items()}) for step in (*LEDGER, RANGE)]
    missed = [f"measured at {n:,} ÷ line" for n in MANY]
    return table(("step", "ms at none", "µs a partition", *missed), rows)


def _modelled(step: str, points: Mapping[int, float]) -> Sequence[str]:
    start, slope = line({n: points[n] for n in FEW})
    missed = (f"{points[n] / (start + slope * n):.2f}" for n in MANY)
    return step, f"{start * 1e3:.1f}", f"{slope * 1e6:.1f}", *missed


def broker_table(seen: Mapping[int, Mapping[str, float]]) -> str:
    """Return the table of milliseconds by partitions of a real topic."""
    head = ("milliseconds to describe a topic, by its partitions", *(f"{n:,}" for n in seen))
    return table(head, [(which, *(f"{found[which] * 1e3:,.1f}" for found in seen.values())) for which in (WHOLE, OWN)])


def report(write: bool = typer.Option(False, "--write", help="Into docs/explanation/scale.md as well.")) -> None:
    """Measure, and print the tables."""
    with ended_by_signals(), own_home("bench-partitions"), stack_up(say):
        endpoints = replace(connection(), registry=None)
        found = {n: asked(endpoints, n).medians for n in TOPICS}
        say(broker_table(found))
        seen: dict[int, dict[str, float]] = {}
        sizes: dict[int, int] = {}
        staged(endpoints, FEW[0])  # cold
        for n in (*FEW, *MANY):
            laps, sizes[n] = direct(endpoints, n)
            seen[n] = {**staged(endpoints, n).medians, **laps.medians}
            say({step: f"{seconds * 1e3:.1f} ms" for step, seconds in seen[n].items()})
    bytes_of = ", ".join(f"{size:,} at {n:,}" for n, size in sizes.items())
    text = "\n\n".join(
        [
            f"{measured_on(f'Median of {ROUNDS} batches, of {DIRECT} ranges, of 15 questions')}",
            ledger_table(seen),
            fill(f"The plan, as the ledger keeps it, in bytes: {bytes_of}.", 120),
            model_table(seen),
            broker_table(found),
        ]
    )
    print(text)
    if write:
        begin, end = markers("partitions")
        write_between(begin, f"{text}\n", end, PAGE)


if __name__ == "__main__":
    typer.run(report)
