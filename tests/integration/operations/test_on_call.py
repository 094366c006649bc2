"""`tidegate lag` and `doctor` agree about pipelines that need a person: halted, failing, or on another topic."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from platform_defs.cli.pipelines.lag import PipelineLag, _lags, _sentence
from platform_defs.contract.model.classified import NOT_SHOWN
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.doctor.findings import Finding, Severity
from platform_defs.errors import BadInput, GateFailed
from platform_defs.operations.doctor.examination import Examination
from resources.kafka.admin.broker import KafkaBroker
from resources.postgres.batch.lease import acquire
from tests.chaos.postgres.tables import with_impossible_sum
from tests.integration.contracts.test_contract_apply import views
from tests.integration.operations.test_settlement import halted, recreate
from tests.support.world import World, transfers


def lag(world: World, pipeline: Pipeline) -> PipelineLag:
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
    assert (seen.lag, seen.topic_recreated, seen.partitions) == (None, True, ())
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
        assert seen.retry_at is not None
        assert f"waiting to retry at {seen.retry_at.isoformat(' ', 'seconds')}" in _sentence(seen)
        assert word in (asdict(seen)["last_error"] or "")
    red, late = examined(world, gated, failing)
    assert (red.severity, late.severity) == (Severity.ERROR, Severity.WARNING)
    assert "fails postings_sum_to_zero; nothing from it was published" in red.what
    assert red.do == f"To see how to resolve it: tidegate resolve {gated.name}"
    assert "column currency" in late.what
    world.rows(f"ALTER TABLE {table} ALTER COLUMN currency TYPE text")
    world.send_and_drain(failing, transfers(4))
    assert (lag(world, failing).last_error, lag(world, failing).retry_at) == (None, None)
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
            assert "column visitor" in (lag(world, shown).last_error or "")
            assert any("column visitor" in found.what for found in examined(world, shown))
        assert lag(world, later).last_error == f"the error {NOT_SHOWN}; see tidegate.pipeline.last_error"
        assert not any("column visitor" in found.what for found in examined(world, later))


@pytest.mark.slow
def test_a_run_that_ended_without_an_error_is_shown_where_fields_are_classified(world: World) -> None:
    pipeline = classifying(world.caught_up(), "currency")
    for _ in range(2):  # the second takes over from the first, whose process is gone
        acquire(world.ledger.url, pipeline.contract).connection.close()
    assert lag(world, pipeline).last_error == "the previous run ended without reporting an error"


def classifying(pipeline: Pipeline, *names: str) -> Pipeline:
    """Return the pipeline with classified columns in its row table."""
    table, *others = pipeline.contract.tables
    columns = tuple(replace(c, classification="pii") if c.name in names else c for c in table.columns)
    return replace(pipeline, contract=replace(pipeline.contract, tables=(replace(table, columns=columns), *others)))
