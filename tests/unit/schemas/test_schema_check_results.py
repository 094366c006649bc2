"""The check writer_schemas_fit_contract, from a contract's validation of schemas."""

from pathlib import Path

import dagster as dg
import pytest

from platform_defs.dagster.keys import topic_key
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.schemas.dagster.check import CheckedSchema, SchemaFit, check_schema, evaluation
from tests.unit.formats.test_writer_fields import WRITERS, avro, contract

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
FITS, DOUBTFUL, MISFIT = SchemaFit(None), SchemaFit(None, ("amount may not fit",)), SchemaFit("it lacks amount")


def shown(*checked: tuple[bool, SchemaFit], away: str | None = None) -> dg.AssetCheckEvaluation:
    found = [CheckedSchema("bank_transfers", f"id {n}", used, of) for n, (used, of) in enumerate(checked)]
    return evaluation(topic_key("bank.transfers"), found, away)


@pytest.mark.parametrize(
    ("checked", "passed", "severity"),
    [
        ([], True, WARN),
        ([(True, FITS), (False, FITS)], True, WARN),
        ([(True, FITS), (False, MISFIT)], False, WARN),
        ([(True, DOUBTFUL)], False, WARN),
        ([(False, MISFIT), (True, DOUBTFUL), (True, MISFIT)], False, ERROR),
    ],
)
def test_only_what_messages_use_and_does_not_fit_is_an_error(
    checked: list[tuple[bool, SchemaFit]], passed: bool, severity: dg.AssetCheckSeverity
) -> None:
    found = shown(*checked)
    assert (found.passed, found.severity) == (passed, severity)


def test_the_worst_is_told_first_and_a_registry_that_is_away_is_named() -> None:
    found = shown((False, MISFIT), (True, FITS), (True, MISFIT), away="the registry does not answer.")
    assert (found.description or "").startswith("bank_transfers, id 2: it lacks amount.")
    assert (found.description or "").endswith("were not checked again: the registry does not answer.")
    table = found.metadata["schemas"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data["schema"] for record in table.records] == ["id 0", "id 2", "id 1"]


@pytest.mark.parametrize(
    ("writer", "why"),
    [
        (avro([{"name": "transfer_id", "type": "string"}]), "amount is required by the contract"),
        (WRITERS["protobuf"], "it is of type protobuf"),
        (WriterSchema("1", "avro", "{}", encrypted=True), "encrypt"),
        (WriterSchema("1", "avro", "["), "cannot be read"),
        (avro([{"name": "transfer_id", "type": "string"}, {"name": "amount", "type": "double"}]), "amount is a double"),
    ],
)
def test_a_schema_that_does_not_fit_says_why(writer: WriterSchema, why: str, tmp_path: Path) -> None:
    assert why in (check_schema(contract(tmp_path), writer).misfit or "")


def test_a_schema_that_fits_may_have_values_that_do_not(tmp_path: Path) -> None:
    found = check_schema(contract(tmp_path), avro())
    assert found.misfit is None
    assert len(found.doubts) == 1
