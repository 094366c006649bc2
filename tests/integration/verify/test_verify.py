"""verify is clean after a run, and finds and names any later change to the tables or the ledger."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from platform_defs.contract.model.contract import Limits
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.stack.endpoints import Endpoints
from platform_defs.verify.compare.report import Report
from platform_defs.verify.source.snapshot import take_snapshot
from platform_defs.verify.verify import verify
from tests.support.waiting import BOUND
from tests.support.world import World, transfer, transfers

BAD = [b"no JSON", b"", transfer(9, "1.234"), transfer(9, currency="XXX"), None]


def view(number: int, **more: Any) -> bytes:
    fields = {
        "event_id": f"e{number}",
        "visitor": "ada",
        "url": "https://example.org/",
        "viewed_at": "2026-11-01T10:00:00Z",
    }
    return json.dumps({**fields, "duration_ms": number, **more}).encode()


def customer(number: int, name: str = "Ada", **more: Any) -> bytes:
    fields = {"customer_id": f"C{number}", "name": name, "tier": "gold", "signed_up": "2026-01-01"}
    return json.dumps({**fields, **more}).encode()


def send_customers(
    world: World, pipeline: Pipeline, messages: list[tuple[str, bytes | None]], partition: int = 0
) -> None:
    world.send(
        pipeline, [value for _, value in messages], keys=[key.encode() for key, _ in messages], partition=partition
    )


def large_only(messages: DataFrame) -> DataFrame:
    """Keep the views whose duration is a multiple of ten."""
    return messages.where(F.col("duration_ms") % 10 == 0)


@dataclass
class Doctor:
    """A change to a pipeline's tables, followed by verify and a restore."""

    world: World
    pipeline: Pipeline

    def verify(self) -> Report:
        return verify(self.pipeline, self.world.endpoints, self.world.spark)

    def after(self, statement: str) -> Report:
        tables = {"table": self.pipeline.contract.tables[0].name, "other": self.pipeline.contract.tables[-1].name}
        with psycopg.connect(self.world.endpoints.postgres_url, autocommit=True) as connection:
            kept = {
                name: connection.execute(f"SELECT * FROM {name} WHERE {mine}".encode()).fetchall()
                for name, mine in self._mine
            }
            touched = connection.execute(statement.format(**tables, name=f"'{self.pipeline.name}'").encode()).rowcount
            assert touched == 1, f"{statement} touched {touched} rows"
            report = self.verify()
            with connection.transaction():
                for name, mine in self._mine:
                    connection.execute(f"DELETE FROM {name} WHERE {mine}".encode())
                    for row in kept[name]:
                        connection.execute(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(row))})".encode(), row)
        return report

    @property
    def _mine(self) -> list[tuple[str, str]]:
        here = f"pipeline = '{self.pipeline.name}'"
        return [
            *((table.name, "true") for table in self.pipeline.contract.tables),
            ("tidegate.dead_letter", here),
            ("tidegate.source_position", here),
            ("tidegate.batch_range", f"topic = '{self.pipeline.contract.topic}'"),
        ]


def found(report: Report) -> dict[str, int]:
    assert not report.ok
    assert "NOT exact" in report.explanation
    assert report.samples
    counts = ("lost", "duplicated", "wrong", "uncovered", "unverifiable")
    return {name: getattr(report, name) for name in counts if getattr(report, name)}


def one(where: str = "") -> str:
    return f"(SELECT ctid FROM {{table}} {where} ORDER BY _partition, _offset LIMIT 1)"


def new_bank(world: World) -> Doctor:
    pipeline = world.new_pipeline("accumulate")
    world.send(pipeline, transfers(400))
    world.send_and_drain(pipeline, BAD, partition=1)
    return Doctor(world, pipeline)


def new_views(world: World) -> Doctor:
    pipeline = world.new_pipeline("append")
    world.send(pipeline, [view(n) for n in range(200)])
    world.send_and_drain(pipeline, [b"{", view(1, url="ftp://x")], partition=2)
    return Doctor(world, pipeline)


@pytest.fixture(scope="module")
def bank(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> Doctor:
    return new_bank(World(endpoints, spark))


@pytest.fixture(scope="module")
def views(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> Doctor:
    return new_views(World(endpoints, spark))


@pytest.fixture(scope="module")
def customers(endpoints: Endpoints, spark: Callable[[], SparkSession]) -> Doctor:
    world = World(endpoints, spark)
    pipeline = world.new_pipeline("upsert")
    send_customers(world, pipeline, [(f"C{n}", customer(n)) for n in range(1, 101)])
    later = [("C1", customer(1, "Grace")), ("C2", None), ("C3", b"{"), ("C4", None), ("C4", customer(4))]
    send_customers(world, pipeline, later)
    world.send_and_drain(pipeline, [customer(7)], keys=[b"\xff"], partition=0)
    return Doctor(world, pipeline)


def test_a_drained_pipeline_with_transform_and_accumulate_is_exact(bank: Doctor) -> None:
    report = bank.verify()
    assert report.ok, report
    assert (report.messages, report.rows, report.dead_letters, report.filtered) == (405, 800, 5, 0)
    assert report.keys == 100
    assert report.to_json()["ok"] is True


def through_a_view(messages: DataFrame) -> DataFrame:
    """Return each message unchanged, through a view whose name all calls share."""
    messages.createOrReplaceTempView("through_a_view")
    return messages.sparkSession.sql("SELECT * FROM through_a_view")


@pytest.mark.longest
def test_into_how_many_chunks_the_topic_is_cut_changes_nothing(
    bank: Doctor, views: Doctor, customers: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewed = replace(views, pipeline=replace(views.pipeline, transform=through_a_view))
    doctors = [bank, views, viewed, customers]
    before = [doctor.verify() for doctor in doctors]
    assert all(report.ok for report in before), before
    monkeypatch.setattr("platform_defs.verify.verify.CHUNK", 17)
    monkeypatch.setattr("platform_defs.verify.verify.TRANSFORMED", 40)
    assert [replace(doctor.verify(), seconds=0) for doctor in doctors] == [replace(one, seconds=0) for one in before]


@pytest.mark.slow
def test_a_pipeline_that_never_ran_is_told_so(world: World) -> None:
    world.ledger.migrate()
    report = verify(world.new_pipeline("append"), world.endpoints)
    assert report.ok
    assert "no message has been read yet" in report.explanation


@pytest.mark.longest
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM {table} WHERE ctid = " + one(), {"lost": 1}),
        ("INSERT INTO {table} SELECT * FROM {table} WHERE ctid = " + one(), {"duplicated": 1}),
        ("UPDATE {table} SET amount = amount + 0.01 WHERE ctid = " + one(), {"wrong": 1}),
        ("UPDATE {table} SET occurred_at = occurred_at + interval '1 us' WHERE ctid = " + one(), {"wrong": 1}),
        ("UPDATE {table} SET _offset = _offset + 1000 WHERE ctid = " + one(), {"lost": 1, "duplicated": 1}),
        ("UPDATE {table} SET _partition = 77 WHERE ctid = " + one(), {"lost": 1, "duplicated": 1}),
        ("UPDATE {other} SET balance = balance + 1 WHERE account = 'A00001'", {"wrong": 1}),
        ("DELETE FROM {other} WHERE account = 'A00001'", {"lost": 1}),
        ("INSERT INTO {other} VALUES ('A99999', 0, 1)", {"wrong": 1}),
        ("DELETE FROM tidegate.dead_letter WHERE pipeline = {name} AND error_class = 'InvalidJson'", {"lost": 1}),
        (
            "UPDATE tidegate.dead_letter SET value = 'x' WHERE pipeline = {name} AND error_class = 'InvalidJson'",
            {"wrong": 1},
        ),
        (
            (
                "UPDATE tidegate.source_position SET next_offset = next_offset - 5 WHERE partition = 0 AND pipeline = "
                "{name}"
            ),
            {"duplicated": 10, "uncovered": 5, "wrong": 10},
        ),
        (
            (
                "UPDATE tidegate.batch_range SET until_offset = until_offset - 1 WHERE partition = 3 AND batch_id = "
                "(SELECT max(batch_id) FROM tidegate.batch WHERE pipeline = {name})"
            ),
            {"uncovered": 1},
        ),
        (
            (
                "INSERT INTO tidegate.batch_range SELECT batch_id, topic, topic_id, partition, 5, 7, 2, gaps, NULL "
                "FROM tidegate.batch_range WHERE partition = 3 AND batch_id = "
                "(SELECT max(batch_id) FROM tidegate.batch WHERE pipeline = {name})"
            ),
            {"duplicated": 2},
        ),
    ],
)
def test_what_is_done_to_tables_and_ledger_is_found(bank: Doctor, statement: str, expected: dict[str, int]) -> None:
    assert found(bank.after(statement)) == expected


@pytest.mark.longest
def test_a_position_moved_ahead_is_a_loss(world: World) -> None:
    bank = new_bank(world)
    bank.world.send(bank.pipeline, transfers(8, 1000), partition=0)
    moved = (
        "UPDATE tidegate.source_position SET next_offset = next_offset + 3 WHERE pipeline = {name} AND partition = 0"
    )
    report = bank.after(moved)
    # three messages are neither rows nor dead letters, and the six postings are missing from the balances too
    counts = found(report)
    assert counts["uncovered"] == 3
    assert [sample.kind for sample in report.samples].count("lost") == 3


def test_without_a_transform_too(views: Doctor) -> None:
    report = views.verify()
    assert report.ok, report
    assert (report.messages, report.rows, report.dead_letters) == (202, 200, 2)
    lost = views.after("DELETE FROM {table} WHERE ctid = " + one("WHERE _partition = 2"))
    assert found(lost) == {"lost": 1}
    assert (lost.samples[0].partition, lost.samples[0].offset) == (2, 0)


def test_a_value_a_second_row_and_a_row_for_a_bad_message_are_told_apart(views: Doctor) -> None:
    report = views.after(
        "WITH a AS (INSERT INTO {table} SELECT * FROM {table} WHERE ctid = "
        + one("WHERE _partition = 0")
        + "), b AS (UPDATE {table} SET referrer = 'x' WHERE ctid = "
        + one("WHERE _partition = 1")
        + "), "
        "c AS (INSERT INTO {table} SELECT event_id, visitor, url, referrer, viewed_at, duration_ms, _batch_id, 2, 50 "
        "FROM {table} WHERE ctid = " + one("WHERE _partition = 3") + ") SELECT 1"
    )
    assert found(report) == {"duplicated": 1, "wrong": 2}
    assert any("not valid" in sample.what and "has a row" in sample.what for sample in report.samples)


@pytest.mark.longest
def test_what_a_transform_filters_is_counted_and_held_against_the_table(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=large_only)
    world.send_and_drain(pipeline, [view(n) for n in range(100)])
    doctor = Doctor(world, pipeline)
    report = doctor.verify()
    assert report.ok, report
    assert (report.rows, report.filtered) == (10, 90)
    moved = doctor.after("UPDATE {table} SET _offset = _offset + 1 WHERE ctid = " + one())
    assert found(moved) == {"lost": 1, "wrong": 1}


def test_upserts_are_compared_key_by_key(customers: Doctor) -> None:
    report = customers.verify()
    assert report.ok, report
    assert (report.messages, report.rows, report.dead_letters) == (106, 99, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM {table} WHERE _key = 'C7'", {"lost": 1}),
        ("UPDATE {table} SET name = 'Eve' WHERE _key = 'C7'", {"wrong": 1}),
        ("UPDATE {table} SET name = 'Ada', _offset = 0 WHERE _key = 'C1'", {"lost": 1}),
        ("UPDATE {table} SET _key = 'C2' WHERE _key = 'C3'", {"lost": 2}),
        ("UPDATE {table} SET _key = 'C777' WHERE _key = 'C7'", {"lost": 1, "wrong": 1}),
        ("UPDATE {table} SET _offset = 5000 WHERE _key = 'C7'", {"duplicated": 1}),
        ("DELETE FROM tidegate.dead_letter WHERE pipeline = {name} AND error_class = 'InvalidUtf8'", {"lost": 1}),
    ],
)
def test_what_is_done_to_an_upsert_is_found(customers: Doctor, statement: str, expected: dict[str, int]) -> None:
    assert found(customers.after(statement)) == expected


PRUNED = (
    "WITH gone AS ("
    "DELETE FROM tidegate.dead_letter WHERE pipeline = {name} AND error_class = 'InvalidJson' RETURNING *) "
    "INSERT INTO tidegate.pruned_dead_letter SELECT pipeline, topic_id, partition, stage, error_class, 'discarded', "
    'count(*), range_agg(int8range("offset", "offset" + 1)) FROM gone GROUP BY 1, 2, 3, 4, 5'
)


def test_a_dead_letter_that_was_pruned_is_not_missed_where_the_log_has_its_message_again(world: World) -> None:
    """For example, after the log's start has moved back."""
    views = new_views(world)
    report = views.after(PRUNED)
    assert report.ok, report
    assert (report.messages, report.rows, report.dead_letters, report.unverifiable) == (202, 200, 1, 1)


def test_a_pruned_dead_letter_of_an_upsert_is_not_missed_either(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    send_customers(world, pipeline, [("C1", customer(1)), ("C1", b"{"), ("C2", customer(2))])
    world.drain(pipeline)
    report = Doctor(world, pipeline).after(PRUNED)
    assert report.ok, report
    assert (report.messages, report.rows, report.dead_letters, report.unverifiable) == (3, 2, 0, 1)


def test_a_server_that_cannot_send_for_a_while_does_not_end_a_session_of_verify(views: Doctor) -> None:
    url = views.world.endpoints.postgres_url
    shown, schema = "SELECT current_setting('tcp_user_timeout') AS shown", pa.schema([("shown", pa.string())])
    with take_snapshot(f"{url}{'&' if '?' in url else '?'}tcp_user_timeout=2000", views.pipeline.contract) as snapshot:
        (streamed,) = (batch.column(0)[0].as_py() for batch in snapshot._batches(shown, schema, "it", {}))
        assert {streamed, *snapshot.ask(sql.SQL(shown).format())} == {"900000"}


@pytest.mark.longest
def test_what_retention_removed_is_unverifiable_and_the_rest_is_still_checked(world: World) -> None:
    bank = new_bank(world)
    admin = bank.world.admin()
    for future in admin.delete_records([TopicPartition(bank.pipeline.contract.topic, 0, 40)]).values():
        future.result(BOUND)
    report = bank.verify()
    assert report.ok, report
    assert (report.unverifiable, report.messages, report.rows) == (40, 365, 720)
    assert "no longer be verified" in report.explanation
    assert found(bank.after("DELETE FROM {table} WHERE ctid = " + one("WHERE _partition = 0 AND _offset = 60"))) == {
        "lost": 1,
        "unverifiable": 40,
    }


def test_without_a_transform_a_row_missing_from_what_retention_removed_is_still_a_loss(world: World) -> None:
    views = new_views(world)
    admin = views.world.admin()
    for future in admin.delete_records([TopicPartition(views.pipeline.contract.topic, 0, 40)]).values():
        future.result(BOUND)
    assert views.verify().ok
    assert found(views.after("DELETE FROM {table} WHERE ctid = " + one("WHERE _partition = 0"))) == {
        "lost": 1,
        "unverifiable": 39,
    }


@pytest.mark.longest
def test_a_snapshot_is_not_disturbed_by_a_run_beside_it(world: World) -> None:
    bank = new_bank(world)

    def drain_meanwhile(_done: int, _total: int) -> None:
        if not ran:
            ran.append(1)
            bank.world.send(bank.pipeline, transfers(50, 5000))
            world.drain(bank.pipeline)

    ran: list[int] = []
    report = verify(bank.pipeline, bank.world.endpoints, bank.world.spark, drain_meanwhile)
    assert report.ok, report
    assert report.messages == 405
    assert bank.verify().messages == 455


@pytest.mark.longest
def test_the_digest_does_not_depend_on_how_batches_were_cut(world: World) -> None:
    pipeline = world.new_pipeline("accumulate", batch_messages=60)
    world.send(pipeline, transfers(100))
    assert len(world.drain(pipeline)) > 1
    cut = verify(pipeline, world.endpoints, world.spark)
    tables = ", ".join(table.name for table in pipeline.contract.tables)
    world.rows(f"TRUNCATE {tables}")
    world.rows(f"UPDATE tidegate.source_position SET next_offset = start_offset WHERE pipeline = '{pipeline.name}'")
    whole = replace(pipeline, contract=replace(pipeline.contract, limits=Limits()))
    assert len(world.drain(whole)) == 1
    assert verify(whole, world.endpoints, world.spark).digest == cut.digest
