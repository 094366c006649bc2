"""An upsert whose keys are read in another way: no run and no apply goes on with rows under the previous keys."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from platform_defs.contract.model.contract import WireFormat
from platform_defs.errors import BadInput
from platform_defs.registry import schemas as process
from platform_defs.settings.registry_address import Registry
from tests.integration.contract_changes.test_contract_apply import apply, exact, versions
from tests.integration.verify.test_verify import customer
from tests.support.replays import execute
from tests.support.world import World
from tests.unit.registry.registry_double import registry_double, says

JSON = b'\0\0\0\0\x07{"id":1}'  # a key: as text, not the same one


@pytest.fixture
def registered(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Yield the world with a registry that has one schema, with id 7."""
    monkeypatch.setenv("TIDEGATE_REGISTRY_NAME", uuid4().hex)
    process._kept.clear()
    with registry_double() as registry:
        registry.answers = {"/schemas/ids/7": says({"schema": '{"title":"any"}', "schemaType": "JSON"})}
        address = Registry({"url": registry.url}, patience=2)
        yield replace(world, endpoints=replace(world.endpoints, registry=address))


@pytest.mark.parametrize("evolution", ["manual", "additive"])
@pytest.mark.longest
def test_only_a_replay_takes_another_key_format(registered: World, evolution: str) -> None:
    world, pipeline = registered, registered.new_pipeline("upsert")
    wire = WireFormat("prefix", f"{pipeline.contract.topic}-value")
    before = replace(pipeline, contract=replace(pipeline.contract, wire=wire))
    world.send_and_drain(before, [b"\0\0\0\0\x07" + customer(1)], keys=[JSON], partition=0)
    keyed = replace(wire, key_format="json")
    after = replace(before, contract=replace(before.contract, version="2.0.0", wire=keyed, evolution=evolution))
    world.send(after, [b"\0\0\0\0\x07" + customer(1)], keys=[JSON], partition=0)
    with pytest.raises(BadInput, match=f"keyFormat text -> json.*tidegate replay {after.name}"):
        world.drain(after)
    with pytest.raises(BadInput, match=f"keyFormat text -> json.*tidegate replay {after.name} --execute"):
        apply(world, after)
    assert versions(world, before) == [("1.0.0", False, True)]
    execute(world, after)
    world.drain(after)
    assert len(world.table(after)) == 1
    exact(world, after)
