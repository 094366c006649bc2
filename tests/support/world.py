"""Actions on the real systems: create a pipeline, send messages, run it, query the tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import dagster as dg
import psycopg
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from pyspark.sql import SparkSession

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.model.topic import NO_KEYS
from platform_defs.engine.batch import Budget, RunContext, drain
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.published import Published
from platform_defs.offsets import PartitionView
from platform_defs.runs.open_run import open_run
from platform_defs.settings.contracts import find_all
from platform_defs.spark.resource import SparkResource
from platform_defs.stack.endpoints import Endpoints
from tests.support.waiting import BOUND, wait_for

SHIPPED = {"append": "web_page_views", "upsert": "crm_customers", "accumulate": "bank_transfers"}


class KeptSpark(SparkResource):
    """The session's Spark, which stays running after a run."""

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        pass


@dataclass(frozen=True)
class World:
    """The session's broker, database and Spark."""

    endpoints: Endpoints
    spark: Callable[[], SparkSession]
    replicas: int = 1  # per partition of a new topic

    def new_pipeline(
        self,
        disposition: str = "accumulate",
        *,
        transform: Any = "its own",
        partitions: int = 4,
        config: dict[str, str] | None = None,
        classified: bool = False,
        **limits: Any,
    ) -> Pipeline:
        """Return the shipped pipeline with that disposition, with its own name, topic and schema, and `limits` changed.
        It declares no topic settings. Unless `classified` is set, nothing in it is classified, so that errors show all
        details.
        """
        shipped = next(p for p in find_all().pipelines if p.name == SHIPPED[disposition])
        name = f"t{uuid4().hex[:10]}"
        contract = renamed(shipped.contract if classified else declassified(shipped.contract), name)
        contract = replace(contract, limits=replace(contract.limits, **limits), topic_keys=NO_KEYS)
        compaction = {"cleanup.policy": "compact"} if disposition == "upsert" else {}
        self.create_topic(contract.topic, partitions, {**compaction, **(config or {})})
        return Pipeline(contract, shipped.transform if transform == "its own" else transform)

    def caught_up(self) -> Pipeline:
        """A new pipeline that has read two messages of each of its four partitions."""
        pipeline = self.new_pipeline()
        self.send_and_drain(pipeline, transfers(8))
        return pipeline

    def create_topic(self, topic: str, partitions: int = 4, config: dict[str, str] | None = None) -> None:
        """Create a topic and wait until each partition has a leader: a broker reports creation before that."""
        admin = self.admin()  # named: a future is cancelled when its client is collected
        new = NewTopic(topic, partitions, self.replicas, config=config or {})
        try:
            admin.create_topics([new])[topic].result(BOUND)
        except KafkaException as error:  # it is ours: librdkafka retries if a broker died before it responded
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        ends = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        wait_for(lambda: _all_answer(self.admin(), ends))  # a reused client would query a leader that died meanwhile

    def admin(self) -> AdminClient:
        return AdminClient({**self.endpoints.kafka_options()})

    def send(
        self,
        pipeline: Pipeline,
        values: Iterable[bytes | None],
        *,
        partition: int | None = None,
        keys: Sequence[bytes | None] | None = None,
        headers: Any = None,
    ) -> list[tuple[int, int]]:
        """Produce `values` round robin (or to one partition); return (partition, offset) of each, in order. Each is in
        the log once, even if one of several brokers dies meanwhile.
        """
        size = {"linger.ms": 5, "message.max.bytes": 4_000_000}
        producer = Producer({**self.endpoints.kafka_options(), **size, "enable.idempotence": self.replicas > 1})
        places: dict[int, tuple[int, int]] = {}

        def delivered(number: int) -> Callable[..., None]:
            def note(error: Any, message: Any) -> None:
                assert error is None, error
                places[number] = (message.partition(), message.offset())

            return note

        for number, value in enumerate(values):
            key = keys[number] if keys else None
            to = partition if partition is not None else number % 4
            producer.produce(
                pipeline.contract.topic, value, key=key, partition=to, headers=headers, on_delivery=delivered(number)
            )
            producer.poll(0)
        producer.flush(30)
        return [places[number] for number in range(len(places))]

    def open_run(self, pipeline: Pipeline) -> Any:
        """Return a context manager for a run that leases the pipeline; it yields the `RunContext`."""
        return open_run(pipeline, self.endpoints, self.spark)

    def drain(self, pipeline: Pipeline, budget: Budget | None = None) -> list[Published]:
        """Run once: acquire the lease, then process batches until caught up."""
        with self.open_run(pipeline) as context:
            return list(drain(pipeline, context, budget))

    def send_and_drain(self, pipeline: Pipeline, values: Iterable[bytes | None], **placed: Any) -> list[Published]:
        """Produce `values`, where `placed` has further arguments of `send`, and run once."""
        self.send(pipeline, values, **placed)
        return self.drain(pipeline)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.endpoints.postgres_url)

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of a query as dictionaries."""
        with psycopg.connect(self.endpoints.postgres_url, autocommit=True) as connection:
            cursor = connection.cursor(row_factory=dict_row).execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def table(self, pipeline: Pipeline, index: int = 0) -> list[tuple[Any, ...]]:
        """Return the rows of the pipeline's row table (or accumulate, by `index`), sorted, without the batch ids."""
        table = pipeline.contract.tables[index]
        found = self.rows(f"select * from {table.name}")
        return sorted(tuple(str(v) for k, v in row.items() if k != "_batch_id") for row in found)

    def by_key(self, pipeline: Pipeline, column: str = "name") -> list[tuple[str, Any]]:
        """Return the key and this column of each row of an upsert, by key."""
        rows = self.rows(f'select _key, {column} from {pipeline.contract.row_table.name} order by _key collate "C"')
        return [(row["_key"], row[column]) for row in rows]

    def staging_table(self, staging_id: int) -> str:
        """Return the staging table of an attempt at a batch."""
        (row,) = self.rows("select table_id from tidegate.staging where staging_id = %s", staging_id)
        return f"tidegate_staging.rows_{row['table_id']}"

    def dead_letters(self, pipeline: Pipeline) -> list[dict[str, Any]]:
        return self.rows(
            'select * from tidegate.dead_letter where pipeline = %s order by partition, "offset"', pipeline.name
        )

    def letters(self, pipeline: Pipeline) -> list[tuple[int, str]]:
        """Return offset and error class of each dead letter, by partition and offset."""
        return [(letter["offset"], letter["error_class"]) for letter in self.dead_letters(pipeline)]

    def suspected_long_ago(self, pipeline: Pipeline) -> None:
        """Move the time at which messages of the pending batch were suspected back by an hour, so that the wait is
        over.
        """
        (row,) = self.rows("select pending from tidegate.pipeline where name = %s", pipeline.name)
        for suspect in row["pending"]["suspects"]:
            suspect["since"] -= 3_600
        self.rows("update tidegate.pipeline set pending = %s where name = %s", Jsonb(row["pending"]), pipeline.name)

    def position(self, pipeline: Pipeline) -> dict[int, int]:
        return {p.partition: p.next_offset for p in self.ledger.positions(pipeline.name)}

    def ends(self, pipeline: Pipeline) -> Mapping[int, PartitionView]:
        """Return the broker's view of the pipeline's topic, by partition."""
        return KafkaBroker(self.endpoints.kafka_options()).describe(pipeline.contract.topic).partitions

    @contextmanager
    def session(self) -> Any:
        with psycopg.connect(self.endpoints.postgres_url, autocommit=True) as connection:
            yield connection


def _all_answer(admin: AdminClient, ends: dict[TopicPartition, Any]) -> bool:
    """Return True if each partition's leader reports its end offset."""
    try:
        return all(answer.result(10).offset >= 0 for answer in admin.list_offsets(ends, request_timeout=5).values())
    except (KafkaException, TimeoutError):
        return False


def renamed(contract: Contract, name: str) -> Contract:
    """Return `contract` as pipeline `name`, on topic `name`, with its tables in schema `name`."""

    def moved(table: Table) -> Table:
        new = f"{name}.{table.name.partition('.')[2]}"
        rules = tuple(replace(rule, table=new) for rule in table.batch_rules)
        return replace(table, name=new, batch_rules=rules)

    return replace(contract, pipeline=name, topic=name, tables=tuple(map(moved, contract.tables)))


def declassified(contract: Contract) -> Contract:
    """Return `contract` with nothing in it classified."""
    fields = tuple(replace(item, classification="") for item in contract.fields)
    tables = tuple(
        replace(table, columns=tuple(replace(column, classification="") for column in table.columns))
        for table in contract.tables
    )
    return replace(contract, fields=fields, tables=tables)


def transfer(number: int, amount: str = "10.00", debit: str = "A00001", credit: str = "A00002", **more: Any) -> bytes:
    """Return a valid transfer."""
    import json

    fields = {
        "transfer_id": f"T{number + 1}",
        "debit_account": debit,
        "credit_account": credit,
        "amount": amount,
        "currency": "EUR",
        "occurred_at": "2026-11-01T10:00:00Z",
        "memo": f"payment {number}",
    }
    return json.dumps(fields | more).encode()


def transfers(count: int, start: int = 0) -> list[bytes]:
    """Return `count` valid transfers between a hundred accounts."""
    return [
        transfer(n, f"{n % 997 + 1}.{n % 100:02d}", f"A{n % 100:05d}", f"A{(n * 7 + 1) % 100:05d}")
        for n in range(start, start + count)
    ]


__all__ = ["Budget", "RunContext", "World", "declassified", "renamed", "transfer", "transfers"]
