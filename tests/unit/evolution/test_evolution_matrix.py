"""Every change of a writer's schema: its fit, the row or dead letter of both readers, and what the table needs."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.model.contract import Contract
from platform_defs.engine.task.row_checks import check_rows
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.framed import FramedReader
from platform_defs.verify.validators.framed import FramedValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas, NamedSchema
from platform_defs.verify.validators.validator import NoRow
from tests.unit.evolution.changes_avro import AVRO
from tests.unit.evolution.changes_json import JSON
from tests.unit.evolution.changes_protobuf import PROTOBUF
from tests.unit.evolution.evolution_matrix import NEVER, Change

CHANGES = (*AVRO, *PROTOBUF, *JSON)
BLOCK = 70  # messages per schema: enough for the block readers


def _framed(change: Change) -> list[bytes]:
    """Return messages of the old schema, and as many of the new one."""
    before, after = (b"\0" + number.to_bytes(4) + body for number, body in enumerate(change.payloads(), 1))
    return [before] * BLOCK + [after] * BLOCK


def _read(change: Change, values: Sequence[bytes]) -> Decoded:
    schemas = {str(n): WriterSchema(str(n), change.format, text) for n, text in enumerate(change.schemas, 1)}

    def find(keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        return {key: schemas[key] for key in keys}

    found = FramedReader(change.contract, find).read(pa.array(values, pa.binary()), None)
    return check_rows(change.contract.fields, found.decoded)


@pytest.mark.longest
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_message_of_the_new_schema_becomes_the_same_row_or_a_dead_letter(change: Change) -> None:
    values = _framed(change)
    found = _read(change, values)
    late = [fault for fault in found.faults if fault.index >= BLOCK]
    if isinstance(change.becomes, str):
        assert {fault.error_class for fault in late} == {change.becomes}
        assert len(late) == BLOCK
        text = late[0].message.startswith("schema 2 does not fit the contract: ")
        assert text is (change.becomes == NEVER) or change.becomes == "OtherRecord"  # by the schema, or by the message
    else:
        assert found.rows.to_pylist()[-BLOCK:] == [dict(change.becomes)] * BLOCK
    assert [fault.error_class for fault in found.faults if fault.index < BLOCK] == []
    validated = _validator(change).at(0, BLOCK, values[-1], None)
    wanted = change.becomes if isinstance(change.becomes, str) else tuple(change.becomes.values())
    assert (validated.reason if isinstance(validated, NoRow) else validated) == wanted


def _validator(change: Change) -> FramedValidator:
    known = KnownSchemas()
    for number, text in enumerate(change.schemas, 1):
        known.add(0, 0, 2 * BLOCK, NamedSchema(str(number), change.format, text, (), encrypted=False))
    return FramedValidator(change.contract, known)


FOLLOWED = [(change.contract, change.followed, change.ddl, change.name) for change in CHANGES if change.followed]


@pytest.mark.parametrize(("old", "new", "ddl"), [each[:3] for each in FOLLOWED], ids=[each[3] for each in FOLLOWED])
def test_a_contract_that_goes_along_changes_the_table_by_its_plan(
    old: Contract, new: Contract, ddl: tuple[str, ...]
) -> None:
    found = plan(old, new)
    assert tuple(f"{'replay: ' if item.refused else ''}{item.action}" for item in found.statements) == ddl
    assert not found.empty


def test_what_a_registry_takes_for_the_same_is_refused_or_converted() -> None:
    """Changes that alter every value unnoticed: https://issues.apache.org/jira/browse/AVRO-2078."""
    known = {change.name: change for change in CHANGES if change.registry == "FULL"}
    refused = {name for name, change in known.items() if isinstance(change.becomes, str)}
    assert {"avro: more decimals", "avro: timestamp to local timestamp", "protobuf: the package renamed"} <= refused
    assert {"avro: millis to micros", "avro: fewer decimals"} <= known.keys() - refused
