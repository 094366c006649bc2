"""A timestamp as a number of a unit since 1970: the engine's two readers and verify's two agree about it."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.message import message_changes
from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, Unit
from platform_defs.contract.odcs_writer import contract_digest, text
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from platform_defs.formats.avro.resolve import resolve
from platform_defs.formats.blocks.writer_schema import SchemaNotCompatible, WriterSchema
from platform_defs.formats.json.decode import decode
from platform_defs.formats.json.schema_fit import json_fit
from platform_defs.samples.samples import Samples
from platform_defs.schemas.conversion.exporting import json_schema
from platform_defs.verify.validators.validator import NoRow, Validator
from tests.unit.contract.contract_mistakes import GOOD
from tests.unit.formats.avro.avro_messages import Readers, contract_of, encode, logical, record, writer
from tests.unit.formats.avro.test_avro_agreement import agree
from tests.unit.formats.json.test_decode_agreement import assert_agreement
from tests.unit.verify.test_verify_blocks import accepted

pytestmark = pytest.mark.long


UNITS: tuple[Unit, ...] = get_args(Unit)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
STARTS = (-62_135_596_800, 0, 253_402_300_800)  # of the years 1, 1970 and 10000, in seconds since 1970
STEPS = (-1_001, -1_000, -1, 0, 1, 999, 1_000)
EDGES = [start * ticks + step for start in STARTS for ticks in PER_SECOND.values() for step in STEPS]
NUMBERS = st.one_of(
    st.sampled_from(EDGES), st.integers(-(2**63) - 2, 2**63 + 1), st.integers(1_700_000_000, 1_900_000_000)
)
VALUES = st.one_of(
    NUMBERS.map(str),
    st.integers(-(10**12), 10**12).map(lambda n: str(n * 1_000)),
    st.sampled_from(["1.5", "1e3", "1.0", "-0", "null", "true", '"1"', '"2026-11-01T10:00:00Z"', "[]", "9" * 30]),
)


def contract(*units: Unit) -> Contract:
    """Return a contract with a field of each unit, named after it."""
    fields = [Field(one, column_type("timestamp"), required=False, rules=(), unit=one) for one in units]
    return Contract("p", "1", "d", "", "t", "json", tuple(fields), tables=())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(UNITS), VALUES), min_size=1, max_size=8))
@example([(unit, str(edge)) for unit in UNITS for edge in EDGES])
def test_all_readers_agree_about_every_number(found: list[tuple[Unit, str]]) -> None:
    read = contract(*UNITS)
    values = [f'{{"{unit}":{value}}}'.encode() for unit, value in found]
    assert_agreement(values, read)
    accepted(read, values)
    decoded, validator = decode(read, pa.array(values, pa.binary())), Validator(read)
    faults = {fault.index: fault.error_class for fault in decoded.faults}
    rows = dict(zip(decoded.indexes.to_pylist(), decoded.rows.to_pylist(), strict=True))
    for index, value in enumerate(values):
        validated = validator.value(value)
        if isinstance(validated, NoRow):
            assert faults.get(index) == validated.reason, value
        else:
            assert tuple(rows[index].values()) == validated, value


@pytest.mark.parametrize("unit", UNITS)
def test_all_readers_of_avro_agree_about_a_long_and_an_int(unit: Unit) -> None:
    own = logical("long", "timestamp-millis")  # a logical type has its own unit
    schema = record(long="long", int=["null", "int"], own=own, list={"type": "array", "items": "long"})
    timestamps = contract_of(dict.fromkeys(("long", "int", "own"), "timestamp"))
    fields = tuple(replace(item, unit=unit) for item in timestamps.fields)
    values = [{"long": edge, "int": (0, None), "own": 0, "list": []} for edge in EDGES if abs(edge) < 2**63]
    ticks = 10_000_000 * PER_SECOND[unit]
    values += [{"long": ticks, "int": (1, part), "own": 1_500, "list": []} for part in (-(2**31), -1, 0, 2**31 - 1)]
    messages = [encode(schema, value) for value in values]
    readers = Readers(replace(timestamps, fields=fields), schema)
    assert agree(readers, messages) >= len(values) // 4
    read = readers.single(messages)[-2]
    assert read == tuple(datetime.fromtimestamp(at, UTC) for at in (10_000_000, 0, 1.5))
    with pytest.raises(SchemaNotCompatible, match="each item is a long"):
        resolve(contract_of({"list": "array<timestamp>"}), writer(schema))


@pytest.mark.parametrize("unit", UNITS)
def test_a_good_block_is_read_by_columns(unit: Unit) -> None:
    moment = datetime(2026, 11, 1, 10, tzinfo=UTC)
    values = [f'{{"{unit}":{int(moment.timestamp()) * PER_SECOND[unit]}}}'.encode(), b"{}"] * 3
    assert accepted(contract(unit), values) == 6
    assert decode(contract(unit), pa.array(values, pa.binary())).rows.to_pylist() == [{unit: moment}, {unit: None}] * 3


@pytest.mark.parametrize(
    ("unit", "value", "error_class", "part"),
    [
        ("ms", "1.5", "WrongType", "the number 1.5; the contract requires a timestamp as an integer: milliseconds"),
        ("s", '"2026-11-01T10:00:00Z"', "WrongType", "seconds since 1970"),
        ("ms", "253402300800000", "OutOfRange", "years run from 0001 to 9999"),
        ("s", "-62135596801", "OutOfRange", "years run from 0001 to 9999"),
        ("ns", "9223372036854775808", "OutOfRange", "64 bits hold the years 1677 to 2262"),
        ("ns", "1700000000000000001", "TooManyDecimals", "nothing is rounded"),
    ],
)
def test_what_is_no_time_is_a_dead_letter_with_the_reason(unit: Unit, value: str, error_class: str, part: str) -> None:
    (fault,) = decode(contract(unit), pa.array([f'{{"{unit}":{value}}}'.encode()], pa.binary())).faults
    assert (fault.error_class, fault.field) == (error_class, unit)
    assert part in fault.message


def with_unit(value: str, more: str = "", of: str = "ordered_at") -> str:
    """Return the good contract, with a unit for a field."""
    return GOOD.replace(
        f"- name: {of}\n", f"- name: {of}\n        customProperties: [{{property: unit, value: {value}}}{more}]\n", 1
    )


def test_a_contract_keeps_the_unit_of_a_field() -> None:
    here, without = Path("orders.odcs.yaml"), load(Path("orders.odcs.yaml"), GOOD)
    found = load(here, with_unit("ms"))
    assert {item.name: item.unit for item in found.fields if item.unit} == {"ordered_at": "ms"}
    again = load(here, text(found))
    assert again.fields == tuple(replace(item, examples=()) for item in found.fields)
    digests = {contract_digest(one) for one in (without, found, load(here, with_unit("us")))}
    assert len(digests) == 3
    assert contract_digest(again) == contract_digest(found)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (with_unit("days"), "unknown unit 'days'; use one of: s, ms, us, ns"),
        (with_unit("1"), "unknown unit 1; use one of"),
        (with_unit("[ms]"), "unknown unit"),
        (with_unit("ms", of="weight"), "unit is for a field of type timestamp; this field is double"),
        (with_unit("ms", ", {property: source, value: timestamp}"), "unit does not apply to a field with a source"),
        (with_unit("ms").replace("format: json", "format: protobuf"), "the schema defines the unit of a timestamp"),
    ],
)
def test_a_unit_that_cannot_be_meant_is_refused(changed: str, part: str) -> None:
    with pytest.raises(BadInput, match=r"ordered_at|weight") as refused:
        load(Path("orders.odcs.yaml"), changed)
    assert part in str(refused.value)


def test_another_unit_breaks_producers() -> None:
    old, new = contract("ms"), replace(contract("ms"), fields=(replace(contract("ms").fields[0], unit="us"),))
    (change,) = message_changes(old, new)
    assert (change.kind, change.what) == (ChangeClass.BREAKS_PRODUCERS, "field ms: unit ms -> us")
    assert list(message_changes(old, old)) == []
    text_only = replace(old, fields=(replace(old.fields[0], unit=None),))
    (change,) = message_changes(text_only, old)
    assert (change.kind, change.what) == (ChangeClass.BREAKS_PRODUCERS, "field ms: unit none -> ms")


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_samples_of_a_unit_are_good_and_bad_as_they_say(unit: Unit) -> None:
    here = load(Path("orders.odcs.yaml"), with_unit(unit))
    samples, validator = Samples(here, 7), Validator(here)
    good = list(samples.good(50))
    assert not [one for one in good if isinstance(validator.value(one.value), NoRow)]
    assert {type(json.loads(one.value or b"")["ordered_at"]) for one in good} <= {int, type(None)}
    assert {"OutOfRange", "TooManyDecimals"} & set(samples.reasons)


def test_a_json_schema_has_the_unit_as_an_integer_and_fits() -> None:
    here = load(Path("orders.odcs.yaml"), with_unit("ms"))
    document = json_schema(here)
    assert json.loads(document)["properties"]["ordered_at"]["type"] == ["integer", "null"]
    fit = json_fit(here, WriterSchema("1", "json", document))
    assert not [one for one in (*fit.misfits, *fit.doubts) if "ordered_at" in one]
    of_text = json_fit(here, WriterSchema("1", "json", json_schema(load(Path("orders.odcs.yaml"), GOOD))))
    assert [one for one in (*of_text.misfits, *of_text.doubts) if "ordered_at" in one]
