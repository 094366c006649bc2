"""`tidegate lag` and `doctor` agree about pipelines that need a person: halted, failing, or on another topic."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from platform_defs.contract.model.classified import NOT_SHOWN
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.doctor.examination import Examination
from platform_defs.doctor.findings.finding import Finding, Severity
from platform_defs.engine.lease.lease import acquire
from platform_defs.errors import BadInput, GateFailed
from platform_defs.errors.halts import KeepsFailing
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.resolve.settlement import propose
from platform_defs.status.cli import _lags, _sentence
from tests.chaos.postgres.tables import with_impossible_sum
from tests.integration.contract_changes.test_contract_apply import views
from tests.integration.resolve.test_settlement import halted, recreate, settle
from tests.support.commands import invoke
from tests.support.kafka.logs import delete_records
from tests.support.waiting import BOUND
from tests.support.world import World, transfers


def lag(world: World, pipeline: Pipeline) -> dict[str, Any]:
    (found,) = _lags([pipeline.contract], world.ledger, KafkaBroker(world.endpoints.kafka_options()).describe)
    return found


def examined(world: World, *pipelines: Pipeline) -> list[Finding]:
    """Return the doctor's findings about pipelines."""
    contracts = Contracts(tuple(pipeline.contract for pipeline in pipelines), ())
    servers = world.endpoints.bootstrap_servers
    options = world.endpoints.kafka_options()
    asked = Examination(
        servers, "tidegate stack status", options, world.endpoints.postgres_url, contracts, None, Path("/")
    )
    return [one for one in asked.findings() if one.area == "pipelines"]


@pytest.mark.longest
def test_a_topic_that_was_created_again_is_no_lag_and_a_pipeline_that_halts_for_it_is_an_error(world: World) -> None:
    pipeline, other = world.caught_up(), world.caught_up()
    recreate(world, pipeline)
    world.send(pipeline, transfers(4))
    seen = lag(world, pipeline)
    assert (seen["lag"], seen["topic_recreated"], seen["partitions"]) == (None, True, [])
    assert "was recreated since it was read" in _sentence(seen)
    broken, fine = examined(world, pipeline, other)
    assert (broken.severity, broken.subject) == (Severity.ERROR, pipeline.name)
    assert "was recreated" in broken.what
    assert (fine.severity, fine.what) == (Severity.OK, "1 pipeline without a halt or a failure.")
    assert halted(world, pipeline) == "topic_recreated"
    assert f"HALTED (topic_recreated; to see how to resolve it: tidegate resolve {pipeline.name})" in _sentence(
        lag(world, pipeline)
    )
    (broken,) = examined(world, pipeline)
    assert (broken.severity, f"{pipeline.name} is halted (topic_recreated)" in broken.what) == (Severity.ERROR, True)
    assert broken.do == f"To see how to resolve it: tidegate resolve {pipeline.name}"


@pytest.mark.longest
def test_a_blocking_check_and_a_failing_run_are_shown_with_error_time_and_command(world: World) -> None:
    gated, failing = with_impossible_sum(world.new_pipeline()), world.caught_up()
    world.send(gated, transfers(4))
    with pytest.raises(GateFailed):
        world.drain(gated)
    table = failing.contract.row_table.name
    world.rows(f"ALTER TABLE {table} ALTER COLUMN currency TYPE varchar(20)")
    with pytest.raises(BadInput, match="column currency"):
        world.drain(failing)
    for pipeline, word in ((gated, "postings_sum_to_zero"), (failing, "column currency")):
        seen = lag(world, pipeline)
        assert seen["retry_at"] is not None
        assert f"waiting to retry at {seen['retry_at'].isoformat(' ', 'seconds')}" in _sentence(seen)
        assert word in (seen["last_error"] or "")
    red, late = examined(world, gated, failing)
    assert (red.severity, late.severity) == (Severity.ERROR, Severity.WARNING)
    assert "fails postings_sum_to_zero; nothing from it was published" in red.what
    assert red.do == f"To see how to resolve it: tidegate resolve {gated.name}"
    assert "column currency" in late.what
    world.rows(f"ALTER TABLE {table} ALTER COLUMN currency TYPE text")
    world.send_and_drain(failing, transfers(4))
    assert (lag(world, failing)["last_error"], lag(world, failing)["retry_at"]) == (None, None)
    assert [one.severity for one in examined(world, failing)] == [Severity.OK]


@pytest.mark.longest
def test_an_error_from_before_a_field_was_classified_is_not_shown(world: World) -> None:
    pipeline = views(world)
    one, two, *_ = (column.name for column in pipeline.contract.row_table.columns if column.name != "visitor")
    world.rows(f"ALTER TABLE {pipeline.contract.row_table.name} ALTER COLUMN visitor TYPE varchar(20)")
    for names, more in (((), (one,)), ((one,), (one, two))):
        failing, later = classifying(pipeline, *names), classifying(pipeline, *more)
        with pytest.raises(BadInput, match="column visitor"):
            world.drain(failing)
        for shown in (failing, pipeline):
            assert "column visitor" in (lag(world, shown)["last_error"] or "")
            assert any("column visitor" in found.what for found in examined(world, shown))
        assert lag(world, later)["last_error"] == f"the error {NOT_SHOWN}; see tidegate.pipeline.last_error"
        assert not any("column visitor" in found.what for found in examined(world, later))


@pytest.mark.slow
def test_a_run_that_ended_without_an_error_is_shown_where_fields_are_classified(world: World) -> None:
    pipeline = classifying(world.caught_up(), "currency")
    for _ in range(2):  # the second takes over from the first, whose process is gone
        acquire(world.ledger.url, pipeline.contract).connection.close()
    assert lag(world, pipeline)["last_error"] == "the previous run ended without reporting an error"


def classifying(pipeline: Pipeline, *names: str) -> Pipeline:
    """Return the pipeline with classified columns in its row table."""
    table, *others = pipeline.contract.tables
    columns = tuple(replace(c, classification="pii") if c.name in names else c for c in table.columns)
    return replace(pipeline, contract=replace(pipeline.contract, tables=(replace(table, columns=columns), *others)))


@pytest.mark.slow
def test_messages_that_were_deleted_while_a_pipeline_was_halted_are_told_and_not_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch was to be published with its ten dead letters, and four of its messages are gone from the log."""
    pipeline = world.new_pipeline("append", transform=None, dead_letter_share=0.1, dead_letter_minimum=5)
    monkeypatch.setattr("platform_defs.settings.contracts.find_contract", lambda _: pipeline.contract)
    monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", lambda _: pipeline)
    world.send(pipeline, [b"bad"] * 10, partition=0)
    assert halted(world, pipeline) == "too_many_dead_letters"
    before = invoke("resolve", pipeline.name, code=0)
    assert "will be published with its 10 dead letters" in before.stdout
    delete_records(world, pipeline, {0: 4})
    deleted = f"messages of {pipeline.name} were deleted before they were read: partition 0 [0, 4)"
    seen = invoke("lag", pipeline.name, "-o", "json", code=0).document
    assert (seen["lag"], seen["deleted"], seen["partitions"][0]["deleted"]) == (6, 4, 4)
    shown = invoke("lag", pipeline.name, code=0).stdout
    assert f"{pipeline.name}: 6 messages behind" in shown
    assert (
        "4 unread offsets were deleted before they could be read: partition 0 [0, 4). They do not count as lag."
        in shown
    )
    planned = invoke("plan", pipeline.name, "-o", "json", code=1).document
    assert (planned["halt"]["code"], planned["log"]["code"]) == ("too_many_dead_letters", "retention_passed")
    assert (
        f"Since the halt, the log has changed (retention_passed): {deleted}"
        in invoke("plan", pipeline.name, code=1).stdout
    )
    shown = invoke("resolve", pipeline.name, code=0).stdout
    assert deleted in shown
    assert "can no longer be read and is dropped" in shown
    assert "may halt the pipeline for the same reason (too_many_dead_letters)" in shown
    changes = ["resolve", pipeline.name, "--execute", "--reason", "a test", "-o", "json"]
    done = invoke(*changes, code=0).document
    assert (done["accept"], done["keep_pending"], done["steps"][0]["skip"]) == (False, False, [0, 4])
    assert halted(world, pipeline) == "too_many_dead_letters"  # as resolve said
    again = invoke(*changes, code=0).document
    assert (again["accept"], again["steps"]) == (True, [])
    (batch,) = world.drain(pipeline)
    assert (batch.messages, batch.dead_letters, world.position(pipeline)[0]) == (6, 6, 10)


@pytest.mark.slow
def test_nothing_is_decided_about_a_batch_whose_log_is_another_one(world: World) -> None:
    pipeline = with_impossible_sum(world.new_pipeline())
    world.send(pipeline, transfers(4))
    with pytest.raises(GateFailed):
        world.drain(pipeline)
    recreate(world, pipeline)
    world.send(pipeline, transfers(4))
    broker = KafkaBroker(world.endpoints.kafka_options())
    with pytest.raises(BadInput, match=r"nothing can be decided about the batch any more: .* created again"):
        propose(pipeline.contract, world.ledger, broker, None, "publish")
    with pytest.raises(BadInput, match="--from beginning"):
        propose(pipeline.contract, world.ledger, broker, None)
    decided = propose(pipeline.contract, world.ledger, broker, "beginning")
    assert decided is not None
    assert (decided.keep_pending, decided.state, decided.log is None) == (False, "active", False)
    settle(world, pipeline, decided)
    assert {at.next_offset for at in world.ledger.positions(pipeline.name)} == {0}


@pytest.mark.slow
def test_a_halt_is_shown_though_its_log_cannot_be_described(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = world.new_pipeline()
    monkeypatch.setattr("platform_defs.settings.contracts.find_contract", lambda _: pipeline.contract)
    monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", lambda _: pipeline)
    with world.open_run(pipeline) as context:
        context.ledger.halt(KeepsFailing(tries=10, error_class="Broken", error="it broke"))
    admin = world.admin()  # named: a future is cancelled when its client is collected
    admin.delete_topics([pipeline.contract.topic])[pipeline.contract.topic].result(BOUND)
    shown = invoke("plan", pipeline.name, code=1).stdout
    assert f"{pipeline.name}: halted (keeps_failing)" in shown
    assert "Whether the log still has the next messages could not be checked: " in shown
