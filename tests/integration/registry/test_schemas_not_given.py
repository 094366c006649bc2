"""Messages whose schema an available registry does not return: halted, resolved, replayed."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from platform_defs.contract.model.contract import WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import BadInput, Halt, SchemasNotGiven
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.registry import schemas as process
from platform_defs.resolve.settlement import propose, settle
from platform_defs.settings.registry_address import Registry
from tests.integration.contract_changes.test_contract_apply import apply
from tests.integration.verify.test_verify import view
from tests.support.replays import execute
from tests.support.world import World
from tests.unit.registry.registry_double import Answered, refuses, registry_double, says

SCHEMA = says({"schema": '{"title": "x"}', "schemaType": "JSON"})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answered]:
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    monkeypatch.setattr(process, "PAUSES", (0.0, 0.0))
    process._kept.clear()
    with registry_double() as answered:
        answered.answers = {"/schemas/ids/7": SCHEMA}
        yield answered


@pytest.fixture
def asking(world: World, server: Answered) -> World:
    """Return the world with the server as its registry."""
    return replace(world, endpoints=replace(world.endpoints, registry=Registry({"url": server.url}, patience=1)))


def framed(world: World) -> Pipeline:
    pipeline = world.new_pipeline("append", transform=None)
    given = WireFormat("prefix", f"{pipeline.contract.topic}-value")
    return replace(pipeline, contract=replace(pipeline.contract, wire=given))


def naming(key: int, count: int) -> list[bytes]:
    return [b"\0" + key.to_bytes(4) + view(number) for number in range(count)]


def halted(world: World, pipeline: Pipeline) -> str:
    """Return the message of the halt after the tenth try."""
    with pytest.raises(SchemasNotGiven):
        world.drain(pipeline)
    world.rows("update tidegate.pipeline set failed_tries = 9, batch_failures = 9 where name = %s", pipeline.name)
    with pytest.raises(Halt) as halt:
        world.drain(pipeline)
    assert halt.value.code == "keeps_failing"
    return str(halt.value)


def settled_with_dead_letters(world: World, pipeline: Pipeline) -> None:
    broker = KafkaBroker(world.endpoints.kafka_options())
    with pytest.raises(BadInput, match="--batch"):
        propose(pipeline.contract, world.ledger, broker, None, "publish")
    retried = propose(pipeline.contract, world.ledger, broker, None)
    assert retried is not None
    assert "--batch dead-letters" in retried.explanation
    decided = propose(pipeline.contract, world.ledger, broker, None, "dead-letters")
    assert decided is not None
    settle(world.endpoints.postgres_url, pipeline.contract, decided, "garbage", "tester")
    world.drain(pipeline)


def classes(world: World, pipeline: Pipeline) -> list[str]:
    return [one["error_class"] for one in world.dead_letters(pipeline)]


@pytest.mark.longest
def test_an_id_that_the_registry_refuses_halts_and_is_settled_as_dead_letters(asking: World, server: Answered) -> None:
    pipeline = framed(asking)
    server.answers["/schemas/ids/9"] = refuses(403, 40301)
    asking.send(pipeline, [*naming(7, 5), *naming(9, 1)])
    message = halted(asking, pipeline)
    assert "schema 9" in message
    assert "403" in message
    settled_with_dead_letters(asking, pipeline)
    assert len(asking.table(pipeline)) == 5
    assert classes(asking, pipeline) == ["UnknownSchemaId"]


@pytest.mark.slow
def test_a_first_batch_of_garbage_halts_and_is_settled_as_dead_letters(asking: World) -> None:
    pipeline = framed(asking)
    asking.send(pipeline, naming(256, 1))
    assert "Is this the right registry" in halted(asking, pipeline)
    settled_with_dead_letters(asking, pipeline)
    asking.send_and_drain(pipeline, naming(7, 5))
    assert (len(asking.table(pipeline)), classes(asking, pipeline)) == (5, ["UnknownSchemaId"])


def test_a_first_batch_of_garbage_is_dead_letters_where_the_subject_is_registered(
    asking: World, server: Answered
) -> None:
    pipeline = framed(asking)
    server.answers[f"/subjects/{pipeline.contract.topic}-value/versions"] = says([1])
    asking.send_and_drain(pipeline, naming(256, 1))
    assert classes(asking, pipeline) == ["UnknownSchemaId"]


@pytest.mark.slow
def test_a_replay_reads_by_the_framing_that_the_contract_should_have_had(asking: World) -> None:
    pipeline = framed(asking)
    bare = replace(pipeline, contract=replace(pipeline.contract, wire=WireFormat("none", "", compatibility="")))
    asking.send_and_drain(bare, naming(7, 3))
    assert len(asking.dead_letters(bare)) == 3
    fixed = replace(pipeline, contract=replace(pipeline.contract, version="2.0.0"))
    apply(asking, fixed)
    execute(asking, fixed)
    assert (len(asking.table(fixed)), classes(asking, fixed)) == (3, [])


@pytest.mark.slow
def test_a_replay_under_another_name_of_the_registry_makes_no_dead_letters_of_rows(
    asking: World, server: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = framed(asking)
    asking.send_and_drain(pipeline, [*naming(7, 8), *naming(300, 1)])
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    server.answers.clear()
    with pytest.raises(BadInput, match=rf": 7\. .*TIDEGATE_REGISTRY_NAME.*tidegate schema fetch {pipeline.name}"):
        execute(asking, pipeline)
    server.answers["/schemas/ids/7"] = SCHEMA
    execute(asking, pipeline)
    assert (len(asking.table(pipeline)), classes(asking, pipeline)) == (8, ["UnknownSchemaId"])
