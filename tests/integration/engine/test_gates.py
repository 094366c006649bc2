"""Conditions that stop a batch: too many recent dead letters, and a blocking check that fails on every try."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from sqlalchemy import Engine, event

from platform_defs.contract.model.contract import BatchRule
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.commit import audit
from platform_defs.engine.commit.auditor import GreatExpectationsAuditor
from platform_defs.engine.interfaces.broker_and_auditor import AuditView
from platform_defs.errors import BadInput, ChangedMeanwhile, GateFailed, Halt
from platform_defs.errors.halts import BlockingCheckFailed
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.resolve import settlement
from platform_defs.resolve.choices import BatchChoice
from platform_defs.resolve.settlement import Settlement
from platform_defs.stack.endpoints import Endpoints
from platform_defs.verify.verify import verify
from tests.chaos.postgres.tables import with_impossible_sum
from tests.support.world import World, transfers

TOO_MANY: Any = {"dead_letter_minimum": 40, "dead_letter_share": 0.5, "batch_messages": 10}


def committed(world: World, name: str) -> int:
    """Return the number of messages in the pipeline's batches that have only dead letters."""
    asked = "select coalesce(sum(messages), 0)::int as n from tidegate.batch where pipeline = %s"
    (row,) = world.rows(f"{asked} and messages = dead_letters", name)
    return row["n"]


@pytest.mark.longest
def test_garbage_in_batches_of_ten_halts_soon_after_the_minimum(world: World) -> None:
    pipeline = world.new_pipeline(**TOO_MANY)
    world.send(pipeline, [b"garbage"] * 120)
    with pytest.raises(Halt, match="40 of the latest 40 messages") as halt:
        world.drain(pipeline)
    assert halt.value.code == "too_many_dead_letters"
    assert committed(world, pipeline.name) in range(30, 40)


@pytest.mark.longest
def test_garbage_after_a_long_good_time_halts_as_soon(world: World) -> None:
    pipeline = world.new_pipeline(**(TOO_MANY | {"batch_messages": 200}))
    world.send_and_drain(pipeline, transfers(800))
    small = replace(
        pipeline, contract=replace(pipeline.contract, limits=replace(pipeline.contract.limits, batch_messages=10))
    )
    world.send(pipeline, [b"garbage"] * 120)
    with pytest.raises(Halt, match="of the latest"):
        world.drain(small)
    assert committed(world, pipeline.name) in range(30, 60)


def test_an_auditor_fetches_samples_of_what_failed_and_not_all_of_it(endpoints: Endpoints) -> None:
    fetched: list[int] = []

    def note(_connection: Any, cursor: Any, *_: Any) -> None:
        fetched.append(cursor.rowcount)

    rows = "select 0 as _partition, n::bigint as _offset, n::bigint as amount from generate_series(1, 1000) as n"
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as session:
        session.execute(f"create view public.all_fail as {rows}".encode())
        event.listen(Engine, "after_cursor_execute", note)
        try:
            rule = {"column": "amount", "max_value": 0}
            rules = [BatchRule("none", "t", "ExpectColumnValuesToBeBetween", rule, "blocking", "")]
            (result,) = GreatExpectationsAuditor(endpoints.postgres_url).evaluate(
                rules, AuditView("public", "all_fail")
            )
        finally:
            event.remove(Engine, "after_cursor_execute", note)
            session.execute("drop view public.all_fail")
    assert (result.passed, result.observed["failed"], len(result.observed["samples"])) == (False, 1000, 10)
    assert {"partition", "offset"} == result.observed["samples"][0].keys()  # without the value: it may be classified
    assert 10 in fetched
    assert max(fetched) < 100


def test_an_auditor_asks_once_for_all_that_one_query_answers(endpoints: Endpoints) -> None:
    """The results are in the order of the rules, each with its own."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    rules = [
        _rule("largest", "ExpectColumnMaxToBeBetween", column="b", max_value=6),
        _rule("sum", "ExpectColumnSumToBeBetween", column="a", min_value=6, max_value=6),
        _rule("small", "ExpectColumnValuesToBeBetween", column="b", max_value=5),
        _rule("rows", "ExpectTableRowCountToBeBetween", min_value=3),
        _rule("largest again", "ExpectColumnMaxToBeBetween", column="b", max_value=6),
        _rule("too large", "ExpectColumnMaxToBeBetween", column="b", max_value=5),
    ]
    with _view(endpoints, "of_three", "SELECT 0 AS _partition, n AS _offset, n AS a, 2 * n AS b") as view:
        event.listen(Engine, "after_cursor_execute", note)
        try:
            found = GreatExpectationsAuditor(endpoints.postgres_url).evaluate(rules, view)
        finally:
            event.remove(Engine, "after_cursor_execute", note)
    assert [check.name for check in found] == [rule.name for rule in rules]
    assert [check.passed for check in found] == [True, True, False, True, True, False]
    assert [check.observed.get("observed_value") for check in found] == [6, 6, None, 3, 6, 6]
    assert [sample["offset"] for sample in found[2].observed["samples"]] == [3]
    assert sum('AS "column.' in statement for statement in asked) == 1


def test_of_rules_that_are_asked_at_once_the_broken_one_is_named(endpoints: Endpoints) -> None:
    rules = [
        _rule("largest", "ExpectColumnMaxToBeBetween", column="b", max_value=6),
        _rule("broken", "ExpectColumnSumToBeBetween", column="a", max_value=6),
    ]
    with (
        _view(endpoints, "of_texts", "SELECT 0 AS _partition, n AS _offset, n AS b, n::text AS a") as view,
        pytest.raises(BadInput, match=r"rule broken cannot be evaluated: .*sum"),
    ):
        GreatExpectationsAuditor(endpoints.postgres_url).evaluate(rules, view)


@contextmanager
def _view(endpoints: Endpoints, name: str, selected: str) -> Iterator[AuditView]:
    """Yield a view of three rows, for which n is 1, 2 and 3."""
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as session:
        session.execute(f"CREATE VIEW public.{name} AS {selected} FROM generate_series(1, 3) AS n".encode())
        try:
            yield AuditView("public", name)
        finally:
            session.execute(f"DROP VIEW public.{name}".encode())


def test_what_an_auditor_observes_can_be_stored_whatever_number_it_is(endpoints: Endpoints) -> None:
    """The infinities are not JSON: stored as text, they stop no publication."""
    rule = _rule("mean", "ExpectColumnMeanToBeBetween", column="x", max_value=1)
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as session:
        for value, expected in {"Infinity": "Infinity", "-Infinity": "-Infinity", "NaN": None}.items():
            session.execute(f"CREATE TABLE public.odd AS SELECT '{value}'::float8 AS x".encode())
            try:
                (found,) = GreatExpectationsAuditor(endpoints.postgres_url).evaluate([rule], AuditView("public", "odd"))
                stored = session.execute("SELECT %s::jsonb ->> 'observed_value'", [Jsonb(found.observed)]).fetchone()
            finally:
                session.execute("DROP TABLE public.odd")
            assert stored == (expected,)  # Great Expectations itself makes null of NaN


def test_an_auditor_sees_what_every_session_of_ours_sees(endpoints: Endpoints) -> None:
    """Sessions are in UTC, wait for a writable server, and are not ended for being idle, whatever the role has set."""
    settings = {"TimeZone": "UTC", "idle_in_transaction_session_timeout": "0", "application_name": "tidegate audit"}
    rules = [
        _rule(name, "ExpectColumnValuesToBeInSet", column=name, value_set=[value]) for name, value in settings.items()
    ]
    columns = ", ".join(f"current_setting('{name}') AS \"{name}\"" for name in settings)
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as session:
        session.execute("ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Tokyo'")
        session.execute(f"CREATE VIEW public.seen AS SELECT {columns}, 1 AS _partition, 2 AS _offset".encode())
        try:
            url = f"{endpoints.postgres_url}{'&' if '?' in endpoints.postgres_url else '?'}application_name=theirs"
            found = GreatExpectationsAuditor(url).evaluate(rules, AuditView("public", "seen"))
        finally:
            session.execute("DROP VIEW public.seen")
            session.execute("ALTER ROLE CURRENT_USER RESET TimeZone")
    assert {check.name: check.passed for check in found} == dict.fromkeys(settings, True)


@pytest.mark.longest
def test_after_dead_letters_were_accepted_counting_begins_again(world: World) -> None:
    pipeline = world.new_pipeline(**TOO_MANY)
    for _ in range(2):
        world.send(pipeline, [b"garbage"] * 60)
        with pytest.raises(Halt):
            world.drain(pipeline)
        decide_and_settle(world, pipeline, None)
        assert world.drain(pipeline)  # the rest of the garbage, below the minimum
    assert len(world.dead_letters(pipeline)) == 120


@pytest.mark.longest
def test_failed_checks_are_resolved_before_they_halt_a_pipeline_and_only_for_that_batch(world: World) -> None:
    pipeline = with_impossible_sum(world.new_pipeline())
    world.send(pipeline, transfers(40))
    with pytest.raises(GateFailed, match=f"tidegate resolve {pipeline.name}"):
        world.drain(pipeline)
    decided = decide_and_settle(world, pipeline, "publish")
    assert (decided.state, decided.checks_accepted) == ("active", ("postings_sum_to_zero",))
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows) == (40, 80)
    assert [check.name for check in batch.checks if not check.passed] == ["postings_sum_to_zero"]
    world.send(pipeline, transfers(8, start=40))
    with pytest.raises(GateFailed):
        world.drain(pipeline)
    (kept,) = world.rows("select * from tidegate.settlement where pipeline = %s", pipeline.name)
    assert (kept["halt_code"], kept["reason"], kept["settled_by"]) == ("blocking_check_failed", "a test", "tester")
    decide_and_settle(world, pipeline, "dead-letters")
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.rows, batch.dead_letters) == (8, 0, 8)
    letters = {(d["stage"], d["error_class"]) for d in world.dead_letters(pipeline)}
    assert letters == {("publish", "ManuallyDeadLettered")}
    assert verify(pipeline, world.endpoints, world.spark).ok


@pytest.mark.longest
def test_a_gate_that_stays_red_halts_its_pipeline_and_the_halt_is_settled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "GATE_TRIES", 2)
    pipeline = with_impossible_sum(world.new_pipeline())
    world.send(pipeline, [*transfers(8), b"garbage"])
    for error in (GateFailed, Halt, Halt):
        with pytest.raises(error) as raised:
            world.drain(pipeline)
    assert isinstance(raised.value, Halt)
    assert isinstance(raised.value.detail, BlockingCheckFailed)
    assert (raised.value.detail.tries, raised.value.detail.names) == (2, ("postings_sum_to_zero",))
    retried = decide_and_settle(world, pipeline, "retry")
    assert (retried.state, retried.marks) == ("halted", {})
    with pytest.raises(GateFailed):  # it counts from the beginning
        world.drain(pipeline)
    decide_and_settle(world, pipeline, "publish")
    (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (16, 1)
    with pytest.raises(BadInput, match=r"no batch of \w+ fails a blocking check"):
        decide_and_settle(world, pipeline, "publish")


@pytest.mark.slow
def test_a_gate_that_changed_since_it_was_shown_is_not_settled(world: World) -> None:
    pipeline = with_impossible_sum(world.new_pipeline())
    world.send(pipeline, transfers(4))
    with pytest.raises(GateFailed):
        world.drain(pipeline)
    shown = decide(world, pipeline, "publish")
    with pytest.raises(GateFailed):
        world.drain(pipeline)
    with pytest.raises(ChangedMeanwhile):
        settle(world, pipeline, shown)


def decide(world: World, pipeline: Pipeline, batch: BatchChoice | None) -> Settlement:
    broker = KafkaBroker(world.endpoints.kafka_options())
    decided = settlement.propose(pipeline.contract, world.ledger, broker, None, batch)
    assert decided is not None
    return decided


def settle(world: World, pipeline: Pipeline, decided: Settlement) -> None:
    settlement.settle(world.endpoints.postgres_url, pipeline.contract, decided, "a test", "tester")


def decide_and_settle(world: World, pipeline: Pipeline, batch: BatchChoice | None) -> Settlement:
    decided = decide(world, pipeline, batch)
    settle(world, pipeline, decided)
    return decided


def _rule(name: str, expectation: str, **arguments: Any) -> BatchRule:
    return BatchRule(name, "public.seen", expectation, arguments, "warning", "")
