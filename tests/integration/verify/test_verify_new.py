"""verify --new compares what was committed since its checkpoint, and detects when to start over."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from confluent_kafka import TopicPartition
from psycopg import sql

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.replay.replay import Replay
from platform_defs.stack.endpoints import Endpoints
from platform_defs.verify.compare.report import Report
from platform_defs.verify.incremental import verify_new
from platform_defs.verify.source.snapshot import take_snapshot
from platform_defs.verify.verify import verify
from tests.integration.resolve.test_settlement import decide, filled, halted, recreate, settle
from tests.integration.verify.test_verify import BAD, Doctor, customer, found, one, send_customers
from tests.support.waiting import BOUND
from tests.support.world import World, transfers


class NewDoctor(Doctor):
    """The doctor with the incremental check; it restores the checkpoint as well."""

    def verify(self) -> Report:
        return verify_new(self.pipeline, self.world.endpoints, self.world.spark)

    def after(self, statement: str) -> Report:
        mine = f"pipeline = '{self.pipeline.name}'"
        (kept,) = self.world.rows(f"SELECT v::text AS row FROM tidegate.verified AS v WHERE {mine}")
        report = super().after(statement)
        self.world.rows(f"DELETE FROM tidegate.verified WHERE {mine} RETURNING 1")
        self.world.rows("INSERT INTO tidegate.verified SELECT (%s::tidegate.verified).* RETURNING 1", kept["row"])
        return report


def new_bank(world: World) -> NewDoctor:
    """Return a doctor for eight compared transfers, and four hundred new ones with bad ones among them."""
    pipeline = world.new_pipeline("accumulate")
    world.send_and_drain(pipeline, transfers(8, 9000))
    doctor = NewDoctor(world, pipeline)
    assert doctor.verify().messages == 8
    world.send(pipeline, transfers(400))
    world.send_and_drain(pipeline, BAD, partition=1)
    return doctor


@pytest.fixture(scope="module")
def bank(endpoints: Endpoints, spark: Callable[[], Any]) -> NewDoctor:
    return new_bank(World(endpoints, spark))


def new(where: str = "") -> str:
    """Return SQL for a row of the newest batch."""
    return f"(SELECT ctid FROM {{table}} {where} ORDER BY _batch_id DESC, _partition, _offset LIMIT 1)"


@pytest.mark.slow
def test_what_sums_are_made_of_is_printed_alike_whatever_a_role_has_set(bank: NewDoctor) -> None:
    """A checkpoint keeps them for another session, whose groups must have the same hashes."""
    url, german = bank.world.endpoints.postgres_url, "-c DateStyle=German -c IntervalStyle=iso_8601"
    other = f"{url}{'&' if '?' in url else '?'}{urlencode({'options': german}, quote_via=quote)}"
    group = sql.SQL("SELECT ROW(date '2026-02-01', interval '1 day 2 hours')::text").format()
    with take_snapshot(url, bank.pipeline.contract) as one, take_snapshot(other, bank.pipeline.contract) as two:
        assert one.ask(group) == two.ask(group) == ('(2026-02-01,"1 day 02:00:00")',)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM {table} WHERE ctid = " + new(), {"lost": 1}),
        ("INSERT INTO {table} SELECT * FROM {table} WHERE ctid = " + new(), {"duplicated": 1}),
        ("UPDATE {table} SET amount = amount + 0.01 WHERE ctid = " + new(), {"wrong": 1}),
        ("UPDATE {table} SET _offset = _offset + 1000 WHERE ctid = " + new(), {"lost": 1, "duplicated": 1}),
        ("UPDATE {table} SET _batch_id = _batch_id + 1000000 WHERE ctid = " + one(), {"duplicated": 1}),
        ("DELETE FROM tidegate.dead_letter WHERE pipeline = {name} AND error_class = 'InvalidJson'", {"lost": 1}),
        ("UPDATE {other} SET balance = balance + 1 WHERE account = 'A00001'", {"wrong": 1}),
        ("UPDATE {other} SET account = 'A99999' WHERE account = 'A00001'", {"wrong": 2}),
        (
            "UPDATE tidegate.source_position SET next_offset = next_offset + 5 "
            "WHERE pipeline = {name} AND partition = 0",
            {"uncovered": 5, "lost": 5},
        ),
    ],
)
def test_what_is_done_to_what_is_new_is_found(bank: NewDoctor, statement: str, expected: dict[str, int]) -> None:
    report = bank.after(statement)
    assert found(report) == expected
    assert report.new is not None
    assert report.new.until_batch == report.new.after_batch, "the checkpoint stays"


@pytest.mark.longest
def test_only_what_is_new_is_compared_and_the_checkpoint_moves_once(bank: NewDoctor) -> None:
    older = bank.after("UPDATE {table} SET amount = amount + 0.01 WHERE ctid = " + one())
    assert older.ok, "a row of an older batch is for the whole comparison to see"
    report = bank.verify()
    assert report.ok, report
    assert (report.messages, report.rows, report.dead_letters) == (405, 800, 5)
    again = bank.verify()
    assert (again.ok, again.messages) == (True, 0)
    assert "no new batches since the last check" in again.explanation
    assert verify(bank.pipeline, bank.world.endpoints, bank.world.spark).ok


def new_customers(world: World) -> NewDoctor:
    """Return a doctor for a hundred compared customers; new messages change a row, delete some, and add some again."""
    pipeline = world.new_pipeline("upsert")
    send_customers(world, pipeline, [(f"C{n}", customer(n)) for n in range(1, 101)])
    world.drain(pipeline)
    doctor = NewDoctor(world, pipeline)
    assert doctor.verify().rows == 100
    later = [("C1", customer(1, "Grace")), ("C2", None), ("C3", b"{"), ("C4", None), ("C4", customer(4)), ("C5", None)]
    send_customers(world, pipeline, later)
    world.drain(pipeline)
    return doctor


@pytest.fixture(scope="module")
def customers(endpoints: Endpoints, spark: Callable[[], Any]) -> NewDoctor:
    return new_customers(World(endpoints, spark))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM {table} WHERE _key = 'C1'", {"lost": 1}),
        ("UPDATE {table} SET name = 'Eve' WHERE _key = 'C1'", {"wrong": 1}),
        ("UPDATE {table} SET _batch_id = 1, _offset = 0 WHERE _key = 'C1'", {"lost": 1}),
        ("UPDATE {table} SET _key = 'C2' WHERE _key = 'C4'", {"lost": 1, "wrong": 1}),
        ("DELETE FROM tidegate.dead_letter WHERE pipeline = {name} AND error_class = 'InvalidJson'", {"lost": 1}),
    ],
)
def test_what_is_done_to_the_keys_of_new_messages_is_found(
    customers: NewDoctor, statement: str, expected: dict[str, int]
) -> None:
    assert found(customers.after(statement)) == expected


def test_of_an_upsert_the_keys_of_new_messages_are_compared(customers: NewDoctor) -> None:
    assert customers.after("UPDATE {table} SET name = 'Eve' WHERE _key = 'C7'").ok, "its message is not new"
    report = customers.verify()
    assert (report.ok, report.messages, report.rows, report.dead_letters) == (True, 6, 2, 1), report


@pytest.mark.slow
def test_a_row_that_a_later_window_deletes_is_waited_for_and_one_that_nothing_deletes_is_lost(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    send_customers(world, pipeline, [(f"C{n}", customer(n)) for n in range(1, 5)])
    world.drain(pipeline)
    send_customers(world, pipeline, [("C1", None), ("C2", customer(2, "Grace"))])
    world.drain(pipeline)
    report = verify_new(pipeline, world.endpoints, window=1)
    assert report.ok, report
    assert report.new is not None
    assert (report.new.snapshots, report.messages, report.new.left) == (2, 6, 0)
    world.rows(f"DELETE FROM {pipeline.contract.row_table.name} WHERE _key = 'C3' RETURNING 1")
    world.rows(f"DELETE FROM tidegate.verified WHERE pipeline = '{pipeline.name}' RETURNING 1")
    assert found(verify_new(pipeline, world.endpoints, window=1)) == {"lost": 1}


@pytest.mark.longest
def test_each_window_has_a_snapshot_of_its_own_and_what_there_is_no_time_for_is_left_to_the_next_check(
    world: World,
) -> None:
    pipeline = world.new_pipeline("accumulate")
    for number in range(3):
        world.send_and_drain(pipeline, [*transfers(10, number * 10), b"no JSON"])
    first = verify_new(pipeline, world.endpoints, world.spark, window=5, seconds=0.0)
    assert first.new is not None
    assert (first.ok, first.messages, first.new.snapshots, first.new.left) == (True, 11, 1, 22), first
    second = verify_new(pipeline, world.endpoints, world.spark, window=5)
    assert second.new is not None
    assert (second.ok, second.messages, second.new.snapshots, second.new.left) == (True, 22, 2, 0), second
    assert second.new.after_batch == first.new.until_batch


def test_of_two_checks_at_once_one_moves_the_checkpoint(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.send_and_drain(pipeline, [b"{"] * 3)
    inside: list[Report] = []

    def another(_done: int, _total: int) -> None:
        if not inside:
            inside.append(Report("none"))  # the inner check shows progress as well
            inside.append(verify_new(pipeline, world.endpoints))

    outer = verify_new(pipeline, world.endpoints, progress=another)
    assert "Another check" in outer.explanation
    assert outer.ok
    assert "Another check" not in inside[-1].explanation
    assert world.rows(f"SELECT moves FROM tidegate.verified WHERE pipeline = '{pipeline.name}'") == [{"moves": 1}]


VOIDED = {
    "a replay": (
        "INSERT INTO tidegate.replay (pipeline, from_batch, fingerprint, executed_at) VALUES ({name}, 1, '', now())"
    ),
    "tables were adopted": (
        "INSERT INTO tidegate.adoption (pipeline, actions, reason, adopted_by) VALUES ({name}, '{{}}', '', '')"
    ),
    "tidegate resolve moved": (
        "INSERT INTO tidegate.settlement (pipeline, halt_code, halt_detail, actions, epoch, reason, settled_by) "
        """VALUES ({name}, 'retention_passed', '{{}}', '{{"steps": [{{}}]}}', 1, '', '')"""
    ),
    "the contract has changed": "UPDATE tidegate.pipeline SET contract_digest = 'x' WHERE name = {name}",
    "tables were replaced": "UPDATE tidegate.output SET definition = 'x' WHERE pipeline = {name}",
}
NOT_VOIDED = (
    "INSERT INTO tidegate.settlement (pipeline, halt_code, halt_detail, actions, epoch, reason, settled_by) "
    """VALUES ({name}, 'too_many_dead_letters', '{{}}', '{{"steps": []}}', 1, '', '')"""
)


@pytest.mark.longest
def test_what_may_have_changed_older_rows_voids_the_checkpoint_and_the_check_begins_again(world: World) -> None:
    pipeline = world.new_pipeline("append", transform=None)
    world.send_and_drain(pipeline, [b"{"] * 3)
    assert verify_new(pipeline, world.endpoints).messages == 3
    world.rows(NOT_VOIDED.format(name=f"'{pipeline.name}'") + " RETURNING 1")
    assert verify_new(pipeline, world.endpoints).messages == 0
    for why, statement in VOIDED.items():
        world.rows(statement.format(name=f"'{pipeline.name}'") + " RETURNING 1")
        report = verify_new(pipeline, world.endpoints)
        assert (report.ok, report.messages) == (True, 3), report
        assert report.new is not None
        assert why in report.new.began_again
        assert verify_new(pipeline, world.endpoints).messages == 0


@pytest.mark.longest
def test_after_a_replay_a_new_topic_and_a_settlement_the_check_in_windows_says_what_the_whole_one_says(
    world: World,
) -> None:
    pipeline = filled(world, 40)
    check = NewDoctor(world, pipeline).verify
    assert check().messages == 40
    Replay(pipeline, world.endpoints, world.spark).execute(ReplayStart(), "a test", "tester", lambda _: None)
    _as_whole(pipeline, world, check(), "a replay")
    recreate(world, pipeline)  # then nothing is built again
    assert halted(world, pipeline) == "topic_recreated"
    settle(world, pipeline, decide(world, pipeline, "beginning"))
    world.send_and_drain(pipeline, transfers(60))
    _as_whole(pipeline, world, check(), "recreated")
    world.send(pipeline, transfers(20, 60), partition=0)
    admin = world.admin()  # named: a future is cancelled when its client is collected
    for future in admin.delete_records([TopicPartition(pipeline.contract.topic, 0, 25)]).values():
        future.result(BOUND)
    assert halted(world, pipeline) == "retention_passed"
    settle(world, pipeline, decide(world, pipeline))
    world.drain(pipeline)
    _as_whole(pipeline, world, check(), "tidegate resolve moved")


def _as_whole(pipeline: Pipeline, world: World, report: Report, why: str) -> None:
    """Assert a clean report with the counts of a full check, as far as windows count the same."""
    whole = verify(pipeline, world.endpoints, world.spark)
    assert report.ok, report
    assert whole.ok, whole
    assert report.new is not None
    assert why in report.new.began_again
    same = ("messages", "rows", "dead_letters", "filtered", "skipped", "gaps")
    assert [getattr(report, name) for name in same] == [getattr(whole, name) for name in same]
