"""A changed contract beside the schemas of its writers: the plan, and what becomes of real messages."""

from dataclasses import replace

import pytest

from platform_defs.cli.contract_answer import as_json, show
from platform_defs.contract.column_types import STRING
from platform_defs.contract.model import Column, Field, Format, RowRule
from platform_defs.evolution.statements import Given
from platform_defs.operations.evolve import propose
from platform_defs.operations.preview import judge_both
from resources.registry import schemas as kept_schemas
from tests.integration.test_contract_apply import changed
from tests.integration.test_registry import documents, framed, new_registry, registered, serialized
from tests.world import World

__all__ = ["new_registry", "registered"]  # fixtures
pytestmark = pytest.mark.xdist_group("registry")


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_a_plan_says_which_schemas_fit_and_a_preview_what_becomes_of_their_messages(
    registered: World, kind: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    before = framed(registered, kind, record="bank.Transfer")
    registered.send(before, serialized(registered, before, documents(12)))
    registered.drain(before)
    rule = RowRule("channel_required", "channel", "required", None, "")
    fields = (*before.contract.fields, Field("channel", STRING, True, (rule,)))
    columns = (*before.contract.row_table.columns, Column("channel", STRING, True))
    after = changed(before, "2.0.0", fields=fields, columns=columns).contract
    endpoints = replace(registered.endpoints, registry=None)  # what ids mean is in the ledger
    kept_schemas._kept.clear()
    found = propose(endpoints.postgres_url, after, Given())
    (writer,) = found.writers
    assert (writer.messages, writer.generation) == (12, 1)
    assert writer.fit == "does not fit"
    assert writer.reason.startswith("channel is required")
    seen = judge_both(before.contract, after, endpoints, 2, print)
    assert (seen.before.rows, seen.after.rows) == (seen.messages, 0)
    assert dict(seen.after.dead_letters) == {"SchemaNotCompatible": seen.messages}
    show(found, seen)
    said = " ".join(capsys.readouterr().out.split())
    assert "Its messages have named 1 schema; 0 fit the changed contract." in said
    assert f"Does not fit: schema {writer.key}, which 12 messages named since batch {writer.first_batch}" in said
    document = as_json(found, applied=False, preview=seen)
    assert [(one["key"], one["first_batch"]) for one in document["writers"]] == [(writer.key, writer.first_batch)]
    assert propose(endpoints.postgres_url, before.contract, Given()).writers[0].fit == "fits"
