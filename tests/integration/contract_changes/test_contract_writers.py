"""A changed contract beside its writers' schemas: the plan, and the outcome for real messages."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from platform_defs.contract.evolution.changes import Change, ChangeClass
from platform_defs.contract.evolution.statements import Given
from platform_defs.contract.model.column_types import STRING
from platform_defs.contract.model.contract import Column, Field, Format, RowRule
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract_changes.cli.answer import as_json, show
from platform_defs.contract_changes.evolve import Proposal, propose
from platform_defs.contract_changes.gate import InLedger, _compared
from platform_defs.contract_changes.gate_result import Checked
from platform_defs.contract_changes.preview import decode_both
from platform_defs.errors import BadInput
from platform_defs.registry import schemas as kept_schemas
from tests.integration.contract_changes.test_contract_apply import changed, columns, with_field
from tests.integration.registry.test_registry import client, documents, framed, new_registry, registered, serialized
from tests.support.kafka.registered import avro_values
from tests.support.world import World

__all__ = ["new_registry", "registered"]  # fixtures
pytestmark = pytest.mark.xdist_group("registry")


@pytest.mark.longest
@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_a_plan_says_which_schemas_fit_and_a_preview_what_becomes_of_their_messages(
    registered: World, kind: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    before = framed(registered, kind, record="bank.Transfer")
    registered.send_and_drain(before, serialized(registered, before, documents(12)))
    rule = RowRule("channel_required", "channel", "required", None, "")
    fields = (*before.contract.fields, Field("channel", STRING, True, (rule,)))
    columns = (*before.contract.row_table.columns, Column("channel", STRING, True))
    after = changed(before, "2.0.0", fields=fields, columns=columns).contract
    endpoints = replace(registered.endpoints, registry=None)  # the ledger has the meaning of ids
    kept_schemas._kept.clear()
    found = propose(endpoints.postgres_url, after, Given())
    (writer,) = found.writers
    assert (writer.messages, writer.generation) == (12, 1)
    assert writer.fit == "does not fit"
    assert writer.reason.startswith("channel is required")
    seen = decode_both(before.contract, after, endpoints, 2, print)
    assert (seen.before.rows, seen.after.rows) == (seen.messages, 0)
    assert dict(seen.after.dead_letters) == {"SchemaNotCompatible": seen.messages}
    show(found, seen, applied=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "Its messages have used 1 schema; 0 fit the changed contract." in text
    assert f"Does not fit: schema {writer.key}, used by 12 messages since batch {writer.first_batch}" in text
    document = as_json(found, applied=False, preview=seen)
    assert [(one["key"], one["first_batch"]) for one in document["writers"]] == [(writer.key, writer.first_batch)]
    assert propose(endpoints.postgres_url, before.contract, Given()).writers[0].fit == "fits"


@pytest.mark.slow
def test_a_run_does_not_add_a_field_that_writers_have_with_another_type(registered: World) -> None:
    """A run uses the schemas that messages named; a person also gets the newest ones in the registry."""
    pipeline = framed(registered, "avro", "append", record="web.PageView")
    before = replace(pipeline, contract=replace(pipeline.contract, evolution="additive"))
    registered.send(before, page_views(registered, before, 4, {"name": "channel", "type": "int"}))
    assert [batch.rows for batch in registered.drain(before)] == [4]
    after = with_field(before)
    kept_schemas._kept.clear()
    with pytest.raises(BadInput, match="require a major version"):
        registered.drain(after)
    with pytest.raises(BadInput, match="tidegate contract apply"):
        registered.drain(with_field(before, version="2.0.0"))
    assert "channel" not in columns(registered, before.contract.row_table)
    (breaking,) = of_messages(registered, after)
    assert breaking.kind is ChangeClass.BREAKS_PRODUCERS
    assert "channel is an int" in breaking.sentence
    assert gate_against_ledger(registered, after).result == "does not fit"
    page_views(registered, before, 1, {"name": "device", "type": "double", "default": 0.0})  # registered, and not sent
    (breaking,) = of_messages(registered, with_field(before, "device"))
    assert breaking.kind is ChangeClass.BREAKS_PRODUCERS
    assert of_messages(registered, with_field(before, "referred_by")) == []


def of_messages(world: World, pipeline: Pipeline) -> list[Change]:
    """Return the changes that follow from the schemas of messages."""
    changes = proposed(world, pipeline).plan.changes
    return [change for change in changes if change.what.startswith("messages of schema")]


def proposed(world: World, pipeline: Pipeline) -> Proposal:
    return propose(world.endpoints.postgres_url, pipeline.contract, Given())


def gate_against_ledger(world: World, pipeline: Pipeline) -> Checked:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_POSTGRES_URL", world.endpoints.postgres_url)
        kept = InLedger()
        return _compared(kept.before, pipeline.contract, kept.schemas_in_use)


def page_views(world: World, pipeline: Pipeline, count: int, more: dict[str, Any]) -> list[bytes]:
    """Return values with one more field than the contract reads; their schema is registered."""
    at = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [
        *({"name": name, "type": "string"} for name in ("event_id", "visitor", "url")),
        {"name": "viewed_at", "type": at},
    ]
    schema = {"type": "record", "name": "PageView", "namespace": "web", "fields": [*fields, more]}
    view = {"visitor": "ada", "url": "https://example.org/", "viewed_at": datetime(2026, 11, 1, tzinfo=UTC)}
    rows = [{**view, "event_id": f"e{number}", str(more["name"]): number} for number in range(count)]
    return avro_values(client(world), pipeline.contract.topic, schema, rows)
