"""The policy in platform_defs/errors/error_policy.py for each kind of error, at each place of a batch."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from typing import Any, get_args

import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from psycopg import sql

from platform_defs.contract.evolution.statements import Statement
from platform_defs.dagster.storage import create_missing_tables
from platform_defs.engine.batch import RunContext
from platform_defs.engine.interfaces.source_and_staging import Recording, Source, StagingArea
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import (
    AccessDenied,
    BadInput,
    BrokerAway,
    Halt,
    InternalError,
    LedgerAway,
    MessageUnreadable,
    RowRefused,
    StagingLost,
    TidegateError,
)
from platform_defs.errors.error_policy import ErrorPolicy, Place, of_kafka, of_sqlstate
from platform_defs.formats.blocks.block import Block
from platform_defs.kafka.topic_views import KafkaTopics
from platform_defs.ledger.contract_ledger import run
from platform_defs.ledger.migrations import migrate
from platform_defs.offsets import OffsetRange, TopicView
from platform_defs.postgres.connection import connect, database_errors
from platform_defs.stack.endpoints import Endpoints
from tests.chaos.moments import play
from tests.chaos.postgres.verdicts import failures, plain, refuse_rows, single_entry
from tests.support.postgres.databases import new_database
from tests.support.world import World, transfer, transfers
from tests.unit.errors.test_error_policy import CODES

KINDS = {ErrorPolicy.AWAY: BrokerAway, ErrorPolicy.DENIED: AccessDenied, ErrorPolicy.BUG: InternalError}
AS: Mapping[ErrorPolicy, type[TidegateError]] = {
    ErrorPolicy.AWAY: LedgerAway,
    ErrorPolicy.RETRY: LedgerAway,
    ErrorPolicy.HALT: LedgerAway,  # with its SQLSTATE, by which the run halts
    ErrorPolicy.REFUSED_ROW: RowRefused,
    ErrorPolicy.BAD_INPUT: BadInput,
    ErrorPolicy.BUG: InternalError,
}


def test_whatever_postgres_raises_becomes_the_error_of_its_verdict(endpoints: Endpoints) -> None:
    with connect(endpoints.postgres_url) as connection:
        for code in CODES:
            statement = f"DO $$ BEGIN RAISE 'planted' USING ERRCODE = '{code}'; END $$".encode()
            for place in get_args(Place):
                with pytest.raises(TidegateError, match="planted") as found, database_errors(place):
                    connection.execute(statement)
                assert type(found.value) is AS[of_sqlstate(code, place)], (code, place)


@pytest.mark.parametrize(
    "code", ["CLUSTER_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "LEADER_NOT_AVAILABLE", "INVALID_REQUEST"]
)
def test_what_kafka_refuses_of_a_look_is_the_answer_of_the_topic_that_it_is_about(world: World, code: str) -> None:
    """The real client, with an error from Kafka for one query. An error about the cluster applies to all topics."""
    pipelines = [world.new_pipeline() for _ in range(2)]
    one, other = (pipeline.contract.topic for pipeline in pipelines)
    assert all(map(world.ends, pipelines)), "asked until their partitions have leaders"
    kind, topics = KINDS[of_kafka(code)], KafkaTopics(world.endpoints.kafka_options())
    refused, real = Future[Any](), topics._admin()
    refused.set_exception(KafkaException(KafkaError(getattr(KafkaError, code))))
    described: Mapping[str, Any] = real.describe_topics(TopicCollection([one, other]))
    topics._client = Failing(real, "describe_topics", lambda *_, **_named: {**described, one: refused})
    views = topics.views([one, other])
    assert (type(views[one]), type(views[other])) == (kind, TopicView), views
    topics._client = Failing(real, "describe_cluster", lambda **_: refused)
    if kind is BrokerAway:
        with pytest.raises(BrokerAway, match=r"does not describe the cluster.*Leader not available"):
            topics.views([one, other])
        return
    views = topics.views([one, other])
    assert {type(view) for view in views.values()} == {kind}
    assert code in str(views[other])


# ── In a batch ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class FailingSource:
    """The real source, which raises on its first read."""

    error: Exception

    def read(self, wanted: OffsetRange, cluster_id: str | None = None) -> Iterator[Block]:  # noqa: ARG002  # the port's
        raise self.error
        yield  # pyright: ignore[reportUnreachable]  # makes it a generator


@dataclass(frozen=True)
class FailingArea:
    """The real staging area, whose COPY raises."""

    real: StagingArea
    error: Exception

    @property
    def staging_id(self) -> int:
        return self.real.staging_id

    def recording(self) -> AbstractContextManager[Recording]:
        return self.real.recording()

    def copy(
        self,
        batches: Iterable[pa.RecordBatch],  # noqa: ARG002  # the port's
        schema: pa.Schema,  # noqa: ARG002  # the port's
    ) -> int:
        raise self.error


@dataclass
class Failing:
    """The real object with one method replaced."""

    real: Any
    method: str
    instead: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        return self.instead if name == self.method else getattr(self.real, name)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **_named: Any) -> Any:
        raise error

    return fail


def in_read(error: Exception) -> Callable[[RunContext], RunContext]:
    source: Source = FailingSource(error)
    return lambda context: replace(context, source=source)


def in_copy(error: Exception) -> Callable[[RunContext], RunContext]:
    def change(context: RunContext) -> RunContext:
        real: Any = context.ledger
        opened = Failing(real, "open_staging", lambda pending: FailingArea(real.open_staging(pending), error))
        return replace(context, ledger=opened)  # pyright: ignore[reportArgumentType]

    return change


def in_audit(error: Exception) -> Callable[[RunContext], RunContext]:
    def failing(context: RunContext) -> RunContext:
        return replace(context, ledger=Failing(context.ledger, "audit_view", raising(error)))  # pyright: ignore

    return failing


def in_publish(error: Exception) -> Callable[[RunContext], RunContext]:
    def failing(context: RunContext) -> RunContext:
        return replace(context, ledger=Failing(context.ledger, "publication", raising(error)))  # pyright: ignore

    return failing


def in_lineage(event: Mapping[str, Any]) -> Callable[[RunContext], RunContext]:
    def failing(context: RunContext) -> RunContext:
        return replace(context, lineage=Failing(context.lineage, "of_batch", lambda *_: event))  # pyright: ignore

    return failing


BUG, COUNTS, AWAY = InternalError, (1, 1), (1, 0)
PLANTED: dict[str, tuple[Callable[[RunContext], RunContext], type[TidegateError], tuple[int, int]]] = {
    "read: Kafka is away": (in_read(BrokerAway("x")), BrokerAway, AWAY),
    "read: a damaged record": (in_read(MessageUnreadable("x")), MessageUnreadable, COUNTS),
    "read: a missing ACL": (in_read(AccessDenied("x")), AccessDenied, AWAY),
    "read: a bug": (in_read(KeyError("x")), BUG, COUNTS),
    "COPY: Postgres is away": (in_copy(LedgerAway("x")), LedgerAway, AWAY),
    "COPY: a deadlock": (in_copy(LedgerAway("x", sqlstate="40P01")), LedgerAway, COUNTS),
    "COPY: a bug": (in_copy(ValueError("x")), BUG, COUNTS),
    "audit: Postgres is away": (in_audit(LedgerAway("x")), LedgerAway, AWAY),
    "audit: a bug": (in_audit(ZeroDivisionError("x")), BUG, COUNTS),
    "publish: staging was emptied": (in_publish(StagingLost("x")), StagingLost, COUNTS),
    "publish: a statement of the ledger is refused": (in_lineage({"event": "\0"}), BUG, COUNTS),
}


# Spark tries a failing task four times: of the errors in tasks, this one always runs, the others in `make test-long`.
OFTEN = {"COPY: a deadlock"}


@pytest.mark.parametrize(
    "all_of_them", [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.longest)]
)
def test_each_error_at_each_place_has_its_verdict_and_backs_the_pipeline_off(world: World, all_of_them: bool) -> None:
    """And nothing of it stays: the same batch commits once the error is gone."""
    pipeline = world.new_pipeline()
    world.drain(pipeline)  # the ledger and the tables are created
    world.send(pipeline, transfers(4))
    for what, (change, kind, counted) in PLANTED.items():
        if (what.startswith(("read", "COPY")) and what not in OFTEN) != all_of_them:
            continue
        world.rows("update tidegate.pipeline set failed_tries = 0, batch_failures = 0 where name = %s", pipeline.name)
        with pytest.raises(kind) as found:
            play(world, pipeline, change)
        assert type(found.value) is kind, what
        assert failures(world, pipeline) == counted, what
        assert world.ledger.status(pipeline.name).backed_off, what
    assert world.dead_letters(pipeline) == []
    (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (8, 0)
    assert failures(world, pipeline) == (0, 0)


REFUSED_WHILE_WRITING = {"22003": "NumericValueOutOfRange", "54000": "ProgramLimitExceeded", "P0001": "RaiseException"}
NOT_THE_ROWS: dict[str, tuple[type[TidegateError], tuple[int, int]]] = {
    "42501": (BadInput, COUNTS),
    "40001": (LedgerAway, COUNTS),
    "53100": (LedgerAway, AWAY),
}


@pytest.mark.longest
@pytest.mark.parametrize("code", [*REFUSED_WHILE_WRITING, *NOT_THE_ROWS, "XX001"])
def test_what_a_table_raises_for_one_row_is_that_messages_fault_or_no_messages(world: World, code: str) -> None:
    pipeline = single_entry(world, plain)
    world.drain(pipeline)  # the tables are created
    refuse_rows(world, pipeline, code, "amount = 666")
    places = world.send(pipeline, [*transfers(3), transfer(9, "666.00")])
    if code in REFUSED_WHILE_WRITING:
        (batch,) = world.drain(pipeline)
        assert (batch.rows, batch.dead_letters) == (3, 1)
        (letter,) = world.dead_letters(pipeline)
        assert (letter["partition"], letter["offset"], letter["error_class"]) == (
            *places[3],
            REFUSED_WHILE_WRITING[code],
        )
        return
    kind, counted = NOT_THE_ROWS.get(code, (Halt, COUNTS))
    with pytest.raises(kind, match="refused on purpose"):
        world.drain(pipeline)
    assert failures(world, pipeline) == counted
    assert world.ledger.batch_failures(pipeline.name) == counted[1]
    assert world.dead_letters(pipeline) == []
    assert world.ledger.status(pipeline.name).halt_code == ("keeps_failing" if kind is Halt else None)


FREEZE = """
CREATE FUNCTION public.no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
  IF tg_tag = current_setting('test.frozen', true) THEN
    RAISE EXCEPTION 'no DDL: ask the DBA team' USING ERRCODE = current_setting('test.state');
  END IF;
END $$;
CREATE EVENT TRIGGER no_ddl ON ddl_command_start EXECUTE FUNCTION public.no_ddl()
"""


def test_what_an_event_trigger_refuses_is_the_decision_of_the_databases_owner(
    world: World, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = world.new_pipeline().contract
    with new_database(world.endpoints.postgres_url) as url, psycopg.connect(url, autocommit=True) as owner:

        def freeze(tag: str, state: str = "P0001") -> None:
            for name, value in (("frozen", tag), ("state", state)):
                setting = sql.Identifier("test", name)
                owner.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(database, setting, value))

        def refused(statement: str, state: str = "P0001") -> Any:
            words = f"Postgres refuses {re.escape(statement)}: no DDL: ask the DBA team .SQLSTATE {state}.*owner"
            return pytest.raises(BadInput, match=f"(?s){words}.*function no_ddl")

        def claim() -> None:
            with closing(acquire(url, contract)):
                pass

        database = sql.Identifier(owner.info.dbname)
        owner.execute(FREEZE.encode())
        with subtests.test("the ledger"):
            freeze("CREATE SEQUENCE", "42501")
            with refused("001_ledger.sql", "42501"):
                migrate(url)
            freeze("nothing")
            migrate(url)
        name, (rows, sums) = contract.pipeline, (table.name.partition(".")[2] for table in contract.tables)
        tables = {
            "CREATE TABLE": f'CREATE TABLE "{name}"."{sums}"',
            "CREATE INDEX": f'CREATE INDEX ON "{name}"."{rows}"',
        }
        for state in ("P0001", "38000", "2F003", "39P03", "42501", "23514"):
            with subtests.test("a schema", state=state), refused(f'CREATE SCHEMA "{name}"', state):
                freeze("CREATE SCHEMA", state)
                claim()
        for tag, statement in tables.items():
            with subtests.test(tag), refused(statement):
                freeze(tag)
                claim()
        freeze("nothing")
        claim()
        freeze("ALTER TABLE")
        alter = Statement("add", contract.row_table.name, "more", 'ADD COLUMN "more" text DEFAULT 7')
        words = f"refuses {re.escape(alter.sql.partition(' DEFAULT')[0])}: .*no_ddl"
        with subtests.test("a change of a contract"), connect(url) as changing, pytest.raises(BadInput, match=words):
            list(run(changing, [alter]))
        freeze("CREATE TABLE")
        monkeypatch.setenv("TIDEGATE_DAGSTER_URL", url)
        with (
            subtests.test("Dagster's tables"),
            pytest.raises(BadInput, match=r"(?s)ask the DBA team.*Ask the owner to allow"),
        ):
            create_missing_tables()


@pytest.mark.slow
def test_a_table_that_cannot_be_claimed_backs_the_pipeline_off(world: World) -> None:
    """Or the sensor would start a run at each of its ticks."""
    pipeline = world.caught_up()
    world.rows(f"ALTER TABLE {pipeline.contract.row_table.name} ALTER amount TYPE double precision")
    with pytest.raises(BadInput, match="is double precision"):
        world.drain(pipeline)
    assert failures(world, pipeline) == (1, 0)  # no batch was pending
    assert world.ledger.status(pipeline.name).backed_off


def test_a_database_that_cannot_hold_every_text_is_refused(endpoints: Endpoints) -> None:
    latin = "ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'"
    refused = pytest.raises(BadInput, match=r"has the encoding LATIN1.*ENCODING 'UTF8'")
    with new_database(endpoints.postgres_url, latin) as url, refused:
        migrate(url)
