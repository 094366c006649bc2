"""Faults of a schema registry: unavailable in every way, without an id, wiped, and rebuilt with other ids."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from platform_defs.contract.model.contract import WireFormat
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.plan.replay_plan import ReplayStart
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.registry import schemas as kept_schemas
from platform_defs.replay.replay import Replay
from platform_defs.settings.registry_address import Registry
from platform_defs.stack import registry_server as local_registry
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection
from platform_defs.verify.verify import verify
from tests.chaos.halts import halted, resolve_halt
from tests.chaos.moments import before_the_publication, play
from tests.chaos.postgres.proxy import Fault, Link, Proxy
from tests.chaos.scenario import Chaos, FaultClass, Verdict, scenario
from tests.support.kafka.registered import serialized
from tests.support.waiting import within
from tests.support.world import World, transfers
from tests.unit.registry.registry_double import Answer, refuses, registry_double, says

REGISTRY = "registry"  # started once for all of these scenarios, and for the tests that need it
IN_TIME = 25.0  # seconds: how long a run waits for an unavailable registry
ENUM = {"type": "enum", "symbols": ["A"]}


@scenario(FaultClass.REGISTRY, shares=REGISTRY)
def registry_killed_in_mid_run(chaos: Chaos) -> Verdict:
    """Known ids are read to the end; a new one fails the run in time, and none of its messages is a dead letter."""
    with _registered(chaos) as there:
        world, pipeline = there.world, _avro(there.world, batch_messages=8)
        world.send(pipeline, _transfers(world, pipeline, 24))
        new = _newer(world, pipeline, 8)
        batches = play(world, pipeline, before_the_publication(_once(_kill)))
        assert sum(batch.rows for batch in batches) == 48, "known ids need no registry"
        world.send(pipeline, new)
        _fails_in_time(world, pipeline)
        stack.up(registry=True)
        return there.judge(pipeline, 1, "known ids went on, a new one waited")


@scenario(FaultClass.REGISTRY, shares=REGISTRY)
def registry_slow_or_cut_off(chaos: Chaos) -> Verdict:
    """Five seconds late, silent, reset, every packet lost: as killed."""
    with _registered(chaos) as there:
        world, pipeline = there.world, _avro(there.world)
        at = urlsplit(_url(world))
        with Proxy(at.hostname or "", at.port or 0) as proxy:
            behind = _asking(world, _url(world).replace(at.netloc, f"127.0.0.1:{proxy.port}"))
            proxy.latency = 5.0
            _waits(world, behind, pipeline)
            proxy.latency, proxy.silent = 0.0, True
            _waits(world, behind, pipeline)
            proxy.silent = False
            for fault in ("reset", "lost"):
                proxy.rule = _always(fault)
                _waits(world, behind, pipeline)
            return there.judge(pipeline, proxy.fired, "known ids went on, new ones waited")


@scenario(FaultClass.REGISTRY, shares=REGISTRY)
def registry_that_answers_something_else(chaos: Chaos) -> Verdict:
    """503, 401, 429, an HTML page, a 404 that is not the registry's: as killed."""
    page = says(b"<html>Sign in</html>", kind="text/html")
    answers: list[Answer] = [refuses(503), refuses(401, 40101), refuses(429), page, refuses(404)]
    with _registered(chaos) as there, registry_double() as double:
        world, pipeline = there.world, _avro(there.world)
        for answer in answers:
            double.otherwise = answer
            _waits(world, _asking(world, double.url), pipeline)
        return there.judge(pipeline, len(double.asked), "known ids went on, new ones waited")


@scenario(FaultClass.REGISTRY, shares=REGISTRY)
def producer_whose_schema_is_registered_nowhere(chaos: Chaos) -> Verdict:
    """Alone in a batch, nothing is published; beside others, its messages are dead letters until it is registered."""
    with _registered(chaos) as there:
        world, pipeline = there.world, _avro(there.world)
        number = _registers(world, {**ENUM, "name": f"E{uuid4().hex}"}) + 2
        good = _transfers(world, pipeline, 8)
        unknown = [value[:1] + number.to_bytes(4) + value[5:] for value in _transfers(world, pipeline, 6)[:4]]
        alone = _avro(world)
        world.send(alone, unknown)
        with pytest.raises(BadInput, match=r"4 messages .* Is this the right registry"):
            _quickly(world, alone)
        assert (world.dead_letters(alone), set(world.position(alone).values())) == ([], {0})
        world.send(pipeline, [*good, *unknown])
        (batch,) = _quickly(world, pipeline)
        assert (batch.rows, batch.dead_letters) == (16, 4)
        assert {one["error_class"] for one in world.dead_letters(pipeline)} == {"UnknownSchemaId"}
        while (given := _registers(world, {**_schema(world, good[0]), "doc": uuid4().hex})) < number:
            pass
        assert given == number
        world.send(pipeline, unknown[:1], partition=0)  # its producer goes on: the ledger learns the schema
        assert [one.rows for one in world.drain(pipeline)] == [2]
        _replayed(world, pipeline)
        assert world.rows(f"select count(*) from {pipeline.contract.row_table.name}") == [{"count": 2 * (8 + 4 + 1)}]
        return there.judge(pipeline, 4, "dead letters, then rows by a replay")


@scenario(FaultClass.REGISTRY, shares=REGISTRY)
def registry_wiped(chaos: Chaos) -> Verdict:
    """The ledger has the schemas that messages named: a run, a replay and verify find the same without the registry."""
    with _registered(chaos) as there:
        world, pipeline = there.world, _avro(there.world)
        values = _transfers(world, pipeline, 40)
        world.send(pipeline, values)
        world.drain(pipeline)
        before = verify(pipeline, world.endpoints, world.spark).digest
        _wipe()
        _replayed(world, pipeline)
        assert verify(pipeline, world.endpoints, world.spark).digest == before
        world.send(pipeline, values[:4])
        assert [batch.rows for batch in world.drain(pipeline)] == [8]
        return there.judge(pipeline, 1, "read, replayed and verified without it")


@scenario(FaultClass.REGISTRY, representative=True, shares=REGISTRY)
def registry_built_again_with_other_ids_in_mid_run(chaos: Chaos) -> Verdict:
    """Between the read and the publication: the batch is not published, and halts until a person decides."""
    with _registered(chaos) as there:
        world, pipeline = there.world, _avro(there.world)
        first = _transfers(world, pipeline, 8)
        world.send(pipeline, first)
        world.drain(pipeline)
        number, before = int.from_bytes(first[0][1:5]), world.table(pipeline)
        written = _schema(world, first[0])
        rebuilt = [b"\0" + (number + 1).to_bytes(4) + value[5:] for value in first]

        def build_again() -> None:
            _wipe()
            while _registers(world, {**ENUM, "name": f"E{uuid4().hex}"}) < number:
                pass
            assert _registers(world, written) == number + 1

        world.send(pipeline, first[:4])  # the batch that is read while it happens
        detail = halted(world, pipeline, "registry_switched", _built_again_in(world, pipeline, build_again))
        assert detail["keys"] == [str(number)]
        assert world.table(pipeline) == before, "no row by the wrong schema"
        resolve_halt(world, pipeline)
        world.send(pipeline, rebuilt)
        world.drain(pipeline)
        classes = {one["error_class"] for one in world.dead_letters(pipeline)}
        assert len(world.table(pipeline)) == len(before) + 16
        assert classes == {"SchemaNotCompatible"}, "what was not read before means what the registry says now"
        return there.judge(pipeline, 1, "a halt, settled")


def _built_again_in(world: World, pipeline: Pipeline, deed: Callable[[], object]) -> Callable[[], object]:
    return lambda: play(world, pipeline, before_the_publication(_once(deed)))


def _waits(world: World, behind: World, pipeline: Pipeline) -> None:
    """Assert that a run with known ids goes on, that one with a new id fails and changes nothing, and that it catches
    up once the registry is reachable.
    """
    world.send(pipeline, _transfers(world, pipeline, 4))
    world.drain(pipeline)
    world.send(pipeline, _transfers(world, pipeline, 4))
    assert [batch.rows for batch in behind.drain(pipeline)] == [8]
    world.send(pipeline, _newer(world, pipeline, 4))
    _fails_in_time(behind, pipeline)
    assert [(batch.rows, batch.dead_letters) for batch in world.drain(pipeline)] == [(8, 0)]


def _fails_in_time(world: World, pipeline: Pipeline) -> None:
    before = world.position(pipeline)
    with within(IN_TIME), pytest.raises(RegistryAway, match="answer for schema"):
        world.drain(pipeline)
    assert (world.position(pipeline), world.dead_letters(pipeline)) == (before, [])


@contextmanager
def _registered(chaos: Chaos) -> Iterator[Chaos]:
    """Yield the scenario with the embedded registry, under a name that the ledger does not know yet."""
    with mock.patch.dict(os.environ, TIDEGATE_REGISTRY_NAME=uuid4().hex):
        stack.up(registry=True)
        yield replace(chaos, world=replace(chaos.world, endpoints=connection()))
        stack.up(registry=True)


def _avro(world: World, **limits: Any) -> Pipeline:
    pipeline = world.new_pipeline(**limits)
    wire = WireFormat(framing="prefix", subject=f"{pipeline.contract.topic}-value", record="bank.Transfer")
    return replace(pipeline, contract=replace(pipeline.contract, format="avro", wire=wire))


def _url(world: World) -> str:
    assert world.endpoints.registry is not None
    return world.endpoints.registry.options["url"]


def _asking(world: World, url: str) -> World:
    """Return the world with this registry URL and a short time-out."""
    return replace(world, endpoints=replace(world.endpoints, registry=Registry({"url": url}, patience=3.0)))


def _client(world: World) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": _url(world)})


def _transfers(world: World, pipeline: Pipeline, count: int) -> list[bytes]:
    """Return transfers as the registry's own serializer writes them."""
    documents = [json.loads(value) for value in transfers(count)]
    return serialized("avro", _client(world), pipeline.contract.topic, documents)


def _newer(world: World, pipeline: Pipeline, count: int) -> list[bytes]:
    """Return transfers with a schema that is registered but not yet queried."""
    values = _transfers(world, pipeline, count)
    number = _registers(world, {**_schema(world, values[0]), "doc": uuid4().hex})
    return [value[:1] + number.to_bytes(4) + value[5:] for value in values]


def _schema(world: World, value: bytes) -> dict[str, Any]:
    return json.loads(str(_client(world).get_schema(int.from_bytes(value[1:5])).schema_str))


def _registers(world: World, schema: Any) -> int:
    return _client(world).register_schema(f"{uuid4().hex}-value", Schema(json.dumps(schema)))


def _quickly(world: World, pipeline: Pipeline) -> list[Any]:
    """Run without waiting for followers."""
    with mock.patch.object(kept_schemas, "PAUSES", (0.1, 0.1)):
        return world.drain(pipeline)


def _replayed(world: World, pipeline: Pipeline) -> None:
    Replay(pipeline, world.endpoints, world.spark).execute(ReplayStart(), "a scenario", "chaos", lambda _: None)


def _kill() -> None:
    killed = psutil.Process(stack.status().registry.pid)
    killed.kill()
    killed.wait(10)


def _wipe() -> None:
    """Reset the registry, at the same address."""
    home = stack.status().home
    local_registry.stop(home)
    for file in (home / "registry").glob("schemas*"):
        file.unlink()
    stack.up(registry=True)


def _once(deed: Callable[[], object]) -> Callable[[], None]:
    done: list[bool] = []

    def act() -> None:
        if not done:
            done.append(True)
            deed()

    return act


def _always(fault: Fault) -> Callable[[Link, bytes, bool], Fault | None]:
    return lambda _link, _data, message: fault if message else None
