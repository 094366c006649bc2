"""`tidegate plan`: it shows exactly what the next run reads and does, and changes nothing."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F
from typer.testing import CliRunner, Result

from platform_defs.cli.main import app
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import plan_batch
from platform_defs.engine.commit.publish import STEPS
from platform_defs.engine.commit.publish_statements import PostgresPublication
from platform_defs.errors import BadInput, Fenced, Halt
from platform_defs.runs.answer import NOTHING, changed_sentence, changed_transform
from platform_defs.runs.cli import plan_from_ledger
from platform_defs.settings.contracts import find_pipeline
from tests.chaos.halts import resolve_halt
from tests.integration.verify.test_verify import view
from tests.support.kafka.logs import add_partitions, delete_records
from tests.support.world import Budget, World, transfers

Place = tuple[int, int, int]  # partition, from_offset, until_offset
Ask = Callable[..., Result]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that calls `tidegate plan` for a test's own pipeline, which is not in assets/."""

    def call(pipeline: Pipeline, *more: str) -> Result:
        monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", {pipeline.name: pipeline}.__getitem__)
        monkeypatch.setattr("platform_defs.settings.contracts.with_transform", lambda _: pipeline)
        return CliRunner().invoke(app, ["plan", pipeline.name, *more])

    return call


@pytest.fixture(autouse=True)
def ledger(world: World) -> None:
    """Create the ledger: its creation by a first query is not a change that these tests look for."""
    world.ledger.migrate()


def customer(number: int) -> bytes:
    fields = {"customer_id": f"C{number}", "name": "Ada", "tier": "gold", "signed_up": "2026-11-01"}
    return json.dumps(fields).encode()


def send(world: World, pipeline: Pipeline, count: int, **where: Any) -> None:
    """Send valid messages for the pipeline's disposition."""
    if pipeline.contract.row_table.disposition == "upsert":
        world.send(pipeline, map(customer, range(count)), keys=[b"C%d" % n for n in range(count)], **where)
    else:
        world.send(pipeline, transfers(count), **where)


def shown(world: World, pipeline: Pipeline) -> dict[str, Any]:
    """Return the command's JSON; assert that the whole ledger is unchanged."""
    before = whole_ledger(world)
    answer, *_ = plan_from_ledger(pipeline.contract)
    assert whole_ledger(world) == before
    return json.loads(json.dumps(answer.to_json(), default=str))


def whole_ledger(world: World) -> dict[str, Any]:
    """Return what changes with any write: the rows of each table of the ledger and its staging with their transactions,
    and the state of the sequences. (Their contents would take seconds in a ledger that many tests have written to.)
    """
    schemas = "('tidegate', 'tidegate_staging')"
    names = world.rows(
        f"select table_schema || '.' || table_name t from information_schema.tables where table_schema in {schemas}"
        " and table_type = 'BASE TABLE'"
    )
    digest = "select count(*), sum(hash_record_extended((xmin, ctid), 0)) from {}"
    sequences = world.rows(f"select * from pg_sequences where schemaname in {schemas}")
    return {"sequences": sequences, **{row["t"]: world.rows(digest.format(row["t"])) for row in names}}


def ranges_shown(answer: dict[str, Any]) -> list[Place]:
    return [(item["partition"], item["from_offset"], item["until_offset"]) for item in answer["batch"]["ranges"]]


def ranges_read(world: World, pipeline: Pipeline) -> list[Place]:
    (batch,) = world.drain(pipeline, Budget(batches=1))
    return [(item.partition, item.from_offset, item.until_offset) for item in batch.ranges]


@pytest.mark.longest
@pytest.mark.parametrize(
    "disposition", [pytest.param("append", marks=pytest.mark.longest), pytest.param("upsert", marks=pytest.mark.slow)]
)
def test_what_is_shown_is_what_the_next_run_reads(world: World, ask: Ask, disposition: str) -> None:
    pipeline = world.new_pipeline(disposition, batch_messages=30)
    send(world, pipeline, 40)
    new = shown(world, pipeline)
    assert ([item["partition"] for item in new["added"]], new["batch"]["again"]) == ([0, 1, 2, 3], False)
    assert (new["lag"], new["left"]) == (40, 40 - new["batch"]["offsets"])
    assert ranges_shown(new) == ranges_read(world, pipeline)
    second = shown(world, pipeline)
    assert (second["lag"], second["left"], second["added"]) == (new["left"], 0, [])
    assert ranges_shown(second) == ranges_read(world, pipeline)
    nothing = shown(world, pipeline)
    assert (nothing["batch"], nothing["lag"]) == (None, 0)
    person = ask(pipeline, "--explain")
    assert (person.exit_code, "steps" in nothing, "Spark" in person.output) == (0, False, False)
    assert f"{pipeline.name}: nothing to read: everything up to the last stable offset has been read" in person.stdout
    assert world.drain(pipeline) == []


@pytest.mark.longest
def test_a_pending_batch_is_shown_as_it_was_fixed_although_more_has_come(world: World, ask: Ask) -> None:
    pipeline = world.new_pipeline()
    send(world, pipeline, 8)
    with world.open_run(pipeline) as context:
        fixed = plan_batch(pipeline.contract, context)
        held = shown(world, pipeline)
        context.ledger.back_off("an error")
    # Its first back-off would be over before the plan is shown, on a busy machine.
    world.rows("update tidegate.pipeline set retry_at = now() + interval '50 minutes' where name = %s", pipeline.name)
    assert fixed is not None
    assert held["held_by"] == {"run_id": None}
    send(world, pipeline, 12)
    answer = shown(world, pipeline)
    assert (answer["batch"]["batch_id"], answer["batch"]["again"]) == (fixed.batch_id, True)
    assert (answer["batch"]["offsets"], answer["left"]) == (8, 12)
    assert (answer["held_by"], answer["backed_off_until"] is not None) == (None, True)
    person = ask(pipeline).stdout
    assert f"batch {fixed.batch_id}, read again: 8 offsets of {pipeline.contract.topic} in 1 task" in person
    assert "The last run failed; the sensor retries at 2" in person
    assert "12 of 20 unread offsets" in person
    assert ranges_shown(answer) == ranges_read(world, pipeline)
    assert shown(world, pipeline)["backed_off_until"] is None


@pytest.mark.longest
def test_partitions_added_to_an_upsert_are_shown_waiting_and_then_read(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    send(world, pipeline, 4)
    world.drain(pipeline)
    send(world, pipeline, 6, partition=3)
    add_partitions(world, pipeline, 5)
    send(world, pipeline, 2, partition=4)
    old = shown(world, pipeline)
    assert (old["added"], old["waiting"], old["left"]) == ([{"partition": 4, "next_offset": 0}], [4], 2)
    assert ranges_shown(old) == ranges_read(world, pipeline) == [(3, 1, 7)]
    new = shown(world, pipeline)
    assert (new["added"], new["waiting"]) == ([], [])
    assert ranges_shown(new) == ranges_read(world, pipeline) == [(4, 0, 2)]


@pytest.mark.slow
def test_positions_of_another_log_are_refused_and_none_of_them_is_stored(world: World) -> None:
    pipeline = world.new_pipeline()
    with world.open_run(pipeline) as context:
        assert plan_batch(pipeline.contract, context) is None
        there = context.ledger.positions()
        assert [at.partition for at in there] == [0, 1, 2, 3]
        others = [replace(at, partition=at.partition + 4, topic_id="another") for at in there]
        with pytest.raises(Fenced, match="its other partitions belong to a different topic, or to one created before"):
            context.ledger.add_positions(others, [*there, *others])
        assert context.ledger.positions() == there


@pytest.mark.longest
def test_partitions_added_to_an_append_are_shown_and_read_at_once(world: World) -> None:
    pipeline = world.caught_up()
    add_partitions(world, pipeline, 6)
    send(world, pipeline, 3, partition=5)
    send(world, pipeline, 2, partition=0)
    answer = shown(world, pipeline)
    assert ([item["partition"] for item in answer["added"]], answer["waiting"]) == ([4, 5], [])
    assert ranges_shown(answer) == ranges_read(world, pipeline) == [(0, 2, 4), (5, 0, 3)]


@pytest.mark.longest
def test_a_halt_that_the_next_run_would_find_is_shown_with_its_ranges_and_its_command(world: World, ask: Ask) -> None:
    pipeline = world.caught_up()
    delete_before(world, pipeline, 2, 5)
    before = whole_ledger(world)
    answered = ask(pipeline, "-o", "json")
    assert whole_ledger(world) == before
    halt = json.loads(answered.stdout)["halt"]
    assert (answered.exit_code, halt["code"], halt["command"]) == (
        1,
        "retention_passed",
        f"tidegate resolve {pipeline.name}",
    )
    assert halt["detail"] == {"ranges": [{"partition": 2, "from_offset": 2, "until_offset": 5}]}
    with pytest.raises(Halt) as found:
        world.drain(pipeline)
    assert (found.value.code, found.value.detail.to_json()) == (halt["code"], halt["detail"])
    again = ask(pipeline)
    assert again.exit_code == 1
    assert f"{pipeline.name}: halted (retention_passed)" in again.stdout
    assert f"tidegate resolve {pipeline.name}" in again.stdout
    assert ["2", "2", "5"] in [line.split() for line in again.stdout.splitlines()]
    assert "{" not in again.stdout
    kept = shown(world, pipeline)
    assert (kept["state"], kept["halt"]["detail"], kept["batch"]) == ("halted", halt["detail"], None)


@pytest.mark.longest
def test_a_partition_added_after_its_first_messages_were_deleted_halts_as_shown_and_can_be_settled(
    world: World,
) -> None:
    pipeline = world.caught_up()
    add_partitions(world, pipeline, 5)
    delete_before(world, pipeline, 4, 3)
    halt = shown(world, pipeline)["halt"]
    with pytest.raises(Halt) as found:
        world.drain(pipeline)
    assert found.value.detail.to_json() == halt["detail"]
    decided = resolve_halt(world, pipeline)
    assert [(step.partition, step.skip) for step in decided.steps] == [(4, (0, 3))]
    assert shown(world, pipeline)["halt"] is None
    assert ranges_read(world, pipeline) == [(4, 3, 6)]


def delete_before(world: World, pipeline: Pipeline, partition: int, offset: int) -> None:
    """Send six more messages to a partition, and delete those before `offset`."""
    send(world, pipeline, 6, partition=partition)
    delete_records(world, pipeline, {partition: offset})


@pytest.mark.slow
def test_limits_are_those_of_the_contract_that_the_run_in_progress_works_by(world: World, ask: Ask) -> None:
    pipeline = limited(world.new_pipeline("append", transform=None), "1.0.0", 0.5)
    world.send(pipeline, [view(number) for number in range(4)])
    with world.open_run(pipeline):
        pass  # records the contract
    running, edited, next_version = (
        limited(pipeline, *one) for one in (("1.0.0", 0.3), ("1.0.0", 0.2), ("1.0.1", 0.2))
    )
    with world.open_run(running) as context:
        fixed = plan_batch(running.contract, context)
        assert fixed is not None
        seen = shown(world, edited)
        assert (seen["dead_letters"]["share"], seen["contract"]["source"]) == (0.3, "ledger")
        assert shown(world, running)["contract"] == {
            "source": "file",
            "in_file": "1.0.0",
            "in_ledger": "1.0.0",
            "differs": False,
        }
        person = " ".join(ask(next_version).stdout.split())
        assert f"The run in progress reads batch {fixed.batch_id} under version 1.0.0 of the contract" in person
        assert "The file (version 1.0.1) differs from it." in person
        assert "halts above 30% of the batch" in person
    seen = shown(world, next_version)
    assert (seen["dead_letters"]["share"], seen["contract"]["source"]) == (0.2, "file")
    person = " ".join(ask(next_version).stdout.split())
    assert (
        f"The last run, which left batch {fixed.batch_id} pending, worked by version 1.0.0 of the contract." in person
    )
    assert "halts above 20% of the batch" in person


def limited(pipeline: Pipeline, version: str, share: float) -> Pipeline:
    """Return the pipeline with this version of its contract, and this limit of dead letters."""
    limits = replace(pipeline.contract.limits, dead_letter_share=share)
    return replace(pipeline, contract=replace(pipeline.contract, version=version, limits=limits))


@pytest.mark.slow
def test_the_order_of_the_steps_is_the_one_that_a_run_keeps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = world.new_pipeline()
    send(world, pipeline, 4)
    shown, kept = [step.name for step in STEPS], list[str]()
    for name in shown:
        monkeypatch.setattr(PostgresPublication, name, _noted(getattr(PostgresPublication, name), kept))
    world.drain(pipeline)
    assert shown == kept
    assert shown[0] == "lock_as_owner"
    assert all(step.does for step in STEPS)


def _noted(method: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        names.append(method.__name__)
        return method(*arguments)

    return call


@pytest.mark.longest
def test_the_command_explains_a_batch_step_by_step_and_starts_nothing_but_spark(world: World) -> None:
    pipeline = find_pipeline("bank_transfers")
    if pipeline.contract.topic not in world.admin().list_topics(timeout=10).topics:
        world.create_topic(pipeline.contract.topic)
    send(world, pipeline, 20)
    command = [sys.executable, "-c", "from platform_defs.cli.main import main; main()", "plan", pipeline.name]
    before = whole_ledger(world)
    answered = subprocess.run(
        [*command, "--explain", "-o", "json"], capture_output=True, text=True, timeout=240, check=True
    )
    assert whole_ledger(world) == before
    assert "starting Spark" in answered.stderr
    answer = json.loads(answered.stdout)
    assert answer["batch"]["offsets"] >= 20
    steps = {step["name"]: "\n".join(step["does"]) for step in answer["steps"]}
    assert list(steps) == ["plan", "read", "check", "transform", "stage", "audit", "publish", "report"]
    assert "currency_enum: currency: one of CHF, EUR, GBP, USD" in steps["check"]
    assert "postings_sum_to_zero on bank.postings (blocking)" in steps["audit"]
    assert "balance = sum(amount)" in steps["publish"]
    assert answer["spark"].count("MapInArrow") == 2  # read and decode; stage
    assert "Generate inline" in answer["spark"]  # the transform between them


@pytest.mark.longest
def test_a_transform_is_compared_until_the_ledger_has_it_and_refused_as_a_batch_refuses_it(
    world: World, ask: Ask
) -> None:
    pipeline = world.new_pipeline()
    send(world, pipeline, 8)
    before = whole_ledger(world)
    answered = ask(pipeline, "-o", "json")
    assert answered.exit_code == 0, answered.exception
    found = json.loads(answered.stdout)["transform"]
    assert found["row_local"] is True
    assert found["found"] == "8 messages gave the same rows together and one by one"
    assert found["file"].endswith("assets/bank/transfers.py")
    refused = ask(replace(pipeline, transform=_ranked), "-o", "json")
    assert whole_ledger(world) == before
    assert refused.exit_code != 0
    with pytest.raises(BadInput, match=r"returns a different value of account for ") as batch:
        world.drain(replace(pipeline, transform=_ranked))
    assert str(refused.exception) == str(batch.value)
    world.drain(pipeline)
    send(world, pipeline, 4)
    known = ask(pipeline)
    assert "starting Spark" not in known.stderr
    assert "transfers.py: row-local: compared earlier" in " ".join(known.stdout.split())


@pytest.mark.longest
def test_a_changed_transform_is_named_without_spark_and_without_unread_messages(world: World, ask: Ask) -> None:
    pipeline = world.new_pipeline()
    assert "changed" not in ask(pipeline).stdout  # there is no batch yet
    send(world, pipeline, 8)
    (batch,) = world.drain(pipeline)
    before = whole_ledger(world)
    same, changed, removed = (ask(replace(pipeline, transform=one)) for one in (pipeline.transform, _ranked, None))
    assert whole_ledger(world) == before
    assert "since batch" not in same.stdout
    message = " ".join(changed.stdout.split())
    assert f"assets/bank/transfers.py has changed since batch {batch.batch_id}. Before it publishes" in message
    assert f"was removed since batch {batch.batch_id}. The next batch writes the messages as they are." in " ".join(
        removed.stdout.split()
    )
    assert "starting Spark" not in same.stderr + changed.stderr + removed.stderr
    answer = json.loads(ask(replace(pipeline, transform=_ranked), "-o", "json").stdout)
    assert (answer["nothing"], answer["changed"]["change"]) == (NOTHING, "changed")


def test_a_changed_transform_names_the_files_that_it_imports() -> None:
    found = changed_transform((7, "before"), "now", ["assets/bank/a.py", "assets/bank/b.py"])
    assert found is not None
    assert changed_sentence(found) == (
        "assets/bank/a.py, or a file that it imports (assets/bank/b.py), has changed since batch 7."
    )
    added = changed_transform((7, ""), "now", ["a.py"])
    assert added is not None
    assert changed_sentence(added) == "a.py was added since batch 7."
    assert changed_transform((7, ""), "", ["a.py"]) is None
    assert changed_transform(None, "now", ["a.py"]) is None


def _ranked(transfers: Any) -> Any:
    rank: Any = F.pandas_udf(lambda s: s.rank().astype(str), "string")  # pyright: ignore
    columns = "amount", "currency", "occurred_at", "_partition", "_offset"
    return transfers.select("transfer_id", rank("_offset").alias("account"), *columns)


@pytest.mark.slow
def test_commands_take_several_pipelines_and_one_that_fails_hides_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines = {pipeline.name: pipeline for pipeline in (world.new_pipeline(), world.new_pipeline())}

    def find_pipeline(name: str) -> Pipeline:
        if name not in pipelines:
            raise BadInput(f"there is no pipeline {name}")
        return pipelines[name]

    monkeypatch.setattr("platform_defs.settings.contracts.find_pipeline", find_pipeline)
    monkeypatch.setattr("platform_defs.settings.contracts.find_contract", lambda name: find_pipeline(name).contract)

    def run(*arguments: str) -> tuple[int, Any]:
        done = CliRunner().invoke(app, [*arguments, "-o", "json"])
        return done.exit_code, json.loads(done.stdout)

    for command in ("lag", "plan", "verify", "dlq list", "unsent list"):
        code, document = run(*command.split(), *pipelines, *pipelines)
        assert (command, code, [item["pipeline"] for item in document["pipelines"]]) == (command, 0, [*pipelines])
        code, alone = run(*command.split(), next(iter(pipelines)))
        assert (command, code, alone["pipeline"]) == (command, 0, next(iter(pipelines)))
    for command in ("plan", "dlq list"):
        code, document = run(*command.split(), "nowhere", *pipelines)
        assert (code, [item["pipeline"] for item in document["pipelines"]]) == (1, [*pipelines])
        assert document["failed"] == [{"pipeline": "nowhere", "message": "there is no pipeline nowhere"}]
