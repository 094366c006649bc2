"""A schema becomes a contract that reads its messages; the schema of that contract becomes the same contract."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, Format, WireFormat
from platform_defs.contract.odcs_writer import text
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from platform_defs.formats.avro.resolve import resolve
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.encoding.messages import MessageSchemas
from platform_defs.formats.supported import reader_of
from platform_defs.samples.encoded import EncodedSamples
from platform_defs.schemas.conversion.exporting import export_schema
from platform_defs.schemas.conversion.field_numbers import Assigned, assign
from platform_defs.schemas.conversion.importing import Wanted, import_schema
from platform_defs.settings.contracts import find_contract
from tests.support.kafka.registered import AVRO, JSON_SCHEMA, PROTOBUF
from tests.unit.formats.avro.avro_messages import Case, cases, decode, encode, laid_out, logical, record
from tests.unit.formats.protobuf.protobuf_messages import new
from tests.unit.formats.protobuf.test_protobuf_random_schemas import fill, made_up

SUBJECT = "bank.transfers-value"
SLOW = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def imported(kind: Format, document: str, **wanted: str) -> Contract:
    """Return the contract that import writes, as the loader reads it."""
    made = import_schema(WriterSchema("1", kind, document), Wanted(**{"subject": SUBJECT, **wanted}))
    return load(Path("assets/bank/transfers.odcs.yaml"), made.text)


def again(contract: Contract) -> Contract:
    """Return the contract of the contract's own schema."""
    return imported(contract.format, export_schema(contract, contract.format))


@SLOW
@given(cases(), st.data())
def test_a_contract_of_any_avro_schema_reads_its_messages_and_so_does_that_of_its_own(
    case: Case, data: st.DataObject
) -> None:
    try:
        contract = imported("avro", json.dumps(case.schema))
    except BadInput as error:
        assume("no field that can become a column" not in str(error))
        raise
    messages = [encode(case.schema, value) for value in data.draw(st.lists(case.values, min_size=1, max_size=5))]
    found = decode(contract, case.schema, messages)
    assert not MISREAD & {fault.error_class for fault in found.faults}
    other = again(contract)
    assert other.fields == contract.fields
    assert decode(other, case.schema, messages).rows.equals(found.rows)
    own = WriterSchema("1", "avro", export_schema(contract, "avro"))
    assert resolve(contract, own).unknown == ()


# Faults of a message that was read as another type.
MISREAD = {"TruncatedAvro", "TrailingBytes", "InvalidBranch", "InvalidBoolean", "InvalidProtobuf"}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_a_contract_of_any_protobuf_schema_reads_its_messages_and_numbers_stay(seed: int) -> None:
    proto, _ = made_up(Random(seed))
    contract = imported("protobuf", proto, record="A")
    chance = Random(seed)
    messages = [fill(new(proto, "A"), chance).SerializeToString(deterministic=True) for _ in range(20)]
    reader = reader_of(contract, WriterSchema("1", "protobuf", proto))
    data, starts, stops = laid_out(messages)
    found = reader.read(np.frombuffer(data, np.uint8), starts, stops)
    assert not MISREAD & {fault.error_class for fault in found.faults}
    other = again(contract)
    assert [(item.path, item.number, item.path_numbers) for item in other.fields] == [
        (item.path, item.number, item.path_numbers) for item in contract.fields
    ]
    reader_of(contract, WriterSchema("1", "protobuf", export_schema(contract, "protobuf")))


@pytest.mark.parametrize(("kind", "document", "name"), [("avro", AVRO, "bank.Transfer"), ("json", JSON_SCHEMA, "")])
def test_what_a_contract_was_imported_from_is_what_it_exports_but_for_what_it_says_itself(
    kind: Format, document: str, name: str
) -> None:
    contract = imported(kind, document)
    assert (contract.pipeline, contract.domain, contract.topic) == ("bank_transfers", "bank", "bank.transfers")
    assert contract.row_table.name == "bank.transfers"
    assert contract.wire.record == name
    assert again(contract).fields == contract.fields


def test_every_shipped_contract_is_the_same_in_each_language() -> None:
    contract = find_contract("bank_transfers")
    for kind in ("avro", "json"):
        other = imported(kind, export_schema(contract, kind))
        assert [(item.name, item.type, item.required) for item in other.fields] == [
            (item.name, item.type, item.required) for item in contract.fields
        ]


def test_names_are_columns_and_paths_lead_to_the_keys() -> None:
    inner = record("Person", homeCity="string", _id="long")
    schema = record("M", deviceId="long", ctid="long", Owner=["null", inner], device_id="string", class_="boolean")
    contract = imported("avro", json.dumps(schema))
    assert {item.name: (".".join(item.path), item.required) for item in contract.fields} == {
        "device_id": ("deviceId", True),
        "ctid_value": ("ctid", True),
        "owner_home_city": ("Owner.homeCity", False),
        "owner_id": ("Owner._id", False),
        "device_id_2": ("device_id", True),
        "class": ("class_", True),
    }


def test_what_is_not_carried_is_said_and_a_schema_of_no_record_is_refused() -> None:
    schema = record(
        "M", kind={"type": "enum", "name": "K", "symbols": ["A", "B"]}, tags={"type": "map", "values": "int"}
    )
    made = import_schema(WriterSchema("1", "avro", json.dumps(schema)), Wanted(subject=SUBJECT))
    assert "kind: an enum of A, B" in made.notes
    assert "tags: a map, whole" in made.notes
    assert "# an enum of A, B" in made.text
    with pytest.raises(BadInput, match="only a record can become rows"):
        imported("avro", '"string"')
    with pytest.raises(BadInput, match=r"records A, B: choose one with --record"):
        imported("avro", json.dumps([record("A", a="int"), record("B", b="int")]))
    wide = record("M", **{f"f{number}": "int" for number in range(2_000)})
    with pytest.raises(BadInput, match="more than 1,500 fields"):
        imported("avro", json.dumps(wide))


def test_what_a_type_means_elsewhere_is_said_where_a_column_does_not_carry_it() -> None:
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    oracle = logical("bytes", "decimal", precision=64, scale=127)
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    schema = record("M", at=["null", micros], day=day, price=oracle, code={"type": "int", "connect.name": "a.B"})
    made = import_schema(WriterSchema("1", "avro", json.dumps(schema)), Wanted(subject=SUBJECT))
    properties = {"at": {"oneOf": [{"type": "null"}, {"type": "integer", "title": micros["connect.name"]}]}}
    in_json = import_schema(WriterSchema("1", "json", json.dumps({"properties": properties})), Wanted(subject=SUBJECT))
    for notes in (made.notes, in_json.notes):
        assert [note for note in notes if note.startswith("at: io.debezium.time.MicroTimestamp, kept as a number; ")]
        assert "unit: us, which reads the database's time as UTC" in str(notes)
    assert "day: io.debezium.time.Date, kept as it is written" in made.notes
    assert "the scale 0 to the precision; they are 64 and 127" in str(made.notes)
    assert "code" not in str(made.notes)


def test_a_contract_with_a_unit_reads_its_own_avro_schema_and_samples_of_any() -> None:
    contract = imported("avro", json.dumps(record("M", at="long")))
    contract = replace(contract, fields=(replace(contract.fields[0], type=column_type("timestamp"), unit="ms"),))
    exported = export_schema(contract, "avro")
    assert '"type": "long"' in exported
    for schema in (exported, json.dumps(record("M", at=logical("long", "timestamp-micros")))):
        samples = EncodedSamples(contract, MessageSchemas(WriterSchema("1", "avro", schema)), seed=1)
        payloads = [(sample.value or b"")[5:] for sample in samples.good(3)]
        read = reader_of(contract, WriterSchema("1", "avro", schema)).read(*laid_out(payloads))
        assert {row["at"].year > 2020 for row in read.rows.to_pylist()} == {True}


def test_extensions_of_a_protobuf_schema_are_named_among_what_is_not_carried() -> None:
    schema = """
    syntax = "proto2"; package bank;
    message Old { option message_set_wire_format = true; extensions 4 to max; }
    message Wide { optional Wide next = 1; repeated Old old = 2; extensions 100 to 199; }
    extend Wide { optional string more = 100; }
    message Plain { optional int32 a = 1; }
    message M { optional Plain plain = 1; repeated Wide wide = 2; }
    """
    made = import_schema(WriterSchema("1", "protobuf", schema), Wanted(subject=SUBJECT, record="bank.M"))
    message = "extensions of bank.Old, bank.Wide are not read, not even in json columns"
    assert [note for note in made.notes if "extensions" in note] == [message]
    made = import_schema(WriterSchema("1", "protobuf", schema), Wanted(subject=SUBJECT, record="bank.Plain"))
    assert not any("extensions" in note for note in made.notes)


def test_records_that_hold_each_other_many_times_over_are_refused_soon() -> None:
    schema: object = record("R0", x="int")
    for level in range(1, 30):
        schema = record(f"R{level}", a=schema, b=f"R{level - 1}", c=f"R{level - 1}", d=f"R{level - 1}")
    with pytest.raises(BadInput, match="more than 1,500 fields"):
        imported("avro", json.dumps(schema))


def test_json_schemas_say_types_through_references_and_null() -> None:
    text = {"type": "string"}
    schema = {
        "definitions": {"At": {"type": "string", "format": "date-time"}, "Node": {"$ref": "#/definitions/Node"}},
        "type": "object",
        "required": ["at", "user"],
        "properties": {
            "at": {"$ref": "#/definitions/At"},
            "until": {"anyOf": [{"type": "null"}, {"$ref": "#/definitions/At"}]},
            "user": {"type": "object", "properties": {"name": {"type": ["string", "null"]}}, "required": ["name"]},
            "loop": {"$ref": "#/definitions/Node"},
            "many": {"type": ["string", "integer"]},
            "list": {"type": "array"},
            "words": {"type": "array", "items": text},
            "pair": {"type": "array", "prefixItems": [text, {"type": "integer"}], "items": text},
            "old_pair": {"type": "array", "items": [text, {"type": "integer"}], "additionalItems": False},
            "open": {"type": "array", "prefixItems": [text]},
            "alike": {"type": "array", "prefixItems": [text, text], "items": False},
        },
    }
    contract = imported("json", json.dumps(schema))
    assert {item.name: (item.type.name, item.required) for item in contract.fields} == {
        "at": ("timestamp", True),
        "until": ("timestamp", False),
        "user_name": ("string", False),
        "loop": ("json", False),
        "many": ("json", False),
        "list": ("json", False),
        "words": ("array<string>", False),
        "pair": ("json", False),
        "old_pair": ("json", False),
        "open": ("json", False),
        "alike": ("array<string>", False),
    }
    assert contract.wire.framing == "prefix"


def proto_contract(*fields: Field) -> Contract:
    return Contract("p", "1", "d", "", "t", "protobuf", fields, (), wire=WireFormat(record="d.M"))


def field(path: str, number: int | None = None, *above: int) -> Field:
    keys = tuple(path.split("."))
    return Field(
        "_".join(keys), column_type("string"), False, (), physical_path=keys, number=number, path_numbers=above
    )


def test_numbers_are_assigned_above_all_that_were_ever_used() -> None:
    contract = proto_contract(field("a", 1), field("b"), field("c.x"), field("c.y", 4, 9))
    assert assign(contract, {}) == [Assigned("b", 10, ()), Assigned("c_x", 5, (9,))]
    assert assign(contract, {}, used=[40]) == [Assigned("b", 41, ()), Assigned("c_x", 41, (9,))]
    known = {("b",): 3, ("gone",): 12, ("c", "x"): 7}
    assert assign(contract, known) == [Assigned("b", 3, ()), Assigned("c_x", 7, (9,))]
    assert assign(proto_contract(field("a", 18_999), field("b")), {}) == [Assigned("b", 20_000, ())]


def test_a_protobuf_schema_needs_a_number_for_each_field() -> None:
    with pytest.raises(BadInput, match=r"no fieldNumber: b.*--assign"):
        export_schema(proto_contract(field("a", 1), field("b")), "protobuf")
    with pytest.raises(BadInput, match="set format: protobuf"):
        export_schema(find_contract("bank_transfers"), "protobuf")
    with pytest.raises(BadInput, match="is not a valid field name"):
        export_schema(replace(proto_contract(field("a-b", 1)), format="avro"), "avro")


def test_a_message_of_protobuf_is_as_it_was_registered() -> None:
    contract = imported("protobuf", PROTOBUF, record="bank.Transfer")
    written = export_schema(contract, "protobuf")
    assert "optional string memo = 7;" in written
    assert "google.protobuf.Timestamp occurred_at = 6;" in written
    assert again(contract).fields == contract.fields


def test_numbers_on_the_way_are_kept_by_the_ledger_and_must_agree() -> None:
    inner = "message Inner { string x = 4; string y = 5; }"
    contract = imported("protobuf", f'syntax = "proto3"; message M {{ Inner inner = 7; }} {inner}')
    assert [item.path_numbers for item in load(Path("ledger.odcs.yaml"), text(contract)).fields] == [(7,), (7,)]
    clash = text(contract).replace("7", "8", 1)
    with pytest.raises(BadInput, match="give inner different numbers: 7 and 8"):
        load(Path("ledger.odcs.yaml"), clash)
