"""The tables of contract/keys/keys.py, which the reference is printed from, agree with the reader."""

from dataclasses import fields
from typing import get_args

import pytest
from open_data_contract_standard import model as odcs
from pydantic import BaseModel

from platform_defs.contract.document.section import Section
from platform_defs.contract.keys import keys, schema_keys
from platform_defs.contract.model.column_types import FIXED, column_type
from platform_defs.contract.model.contract import (
    Disposition,
    Evolution,
    Format,
    Framing,
    KeyFormat,
    Limits,
    OtherRecords,
    Publishing,
    Severity,
    SubjectNameStrategy,
)
from platform_defs.contract.reader import limits

MODELS = [
    (keys.CONTRACT, odcs.OpenDataContractStandard),
    (keys.SERVER, odcs.Server),
    (keys.SERVICE_LEVEL_ENTRY, odcs.ServiceLevelAgreementProperty),
    (keys.CUSTOM_ENTRY, odcs.CustomProperty),
    (schema_keys.MESSAGE, odcs.SchemaObject),
    (schema_keys.ITEMS, odcs.SchemaProperty),
    (schema_keys.FIELD, odcs.SchemaProperty),
    (schema_keys.ENUM, odcs.DataQuality),
    (schema_keys.TABLE, odcs.SchemaObject),
    (schema_keys.COLUMN, odcs.SchemaProperty),
    (schema_keys.BATCH_RULE, odcs.DataQuality),
]
UNITS = {"days": 86_400.0, "hour": 3600.0, "seconds": 1.0}


@pytest.mark.parametrize(("section", "model"), MODELS, ids=lambda item: getattr(item, "title", ""))
def test_every_key_is_one_of_the_standard(section: Section, model: type[BaseModel]) -> None:
    known = {item.alias or name for name, item in model.model_fields.items()}
    assert section.known <= known
    assert len(section.names()) == len(set(section.names()))
    assert not set(section.hints) & section.known


def test_the_defaults_are_those_of_the_limits() -> None:
    properties, levels, defaults = keys.PIPELINE_PROPERTIES, keys.SERVICE_LEVELS, Limits()
    assert properties.names() == [*limits.LIMITS, "publication", "evolution"]
    for name, (field, kind) in limits.LIMITS.items():
        assert kind(properties[name].default) == getattr(defaults, field)
    assert levels.names() == list(limits.LEVELS)
    for name, field in limits.LEVELS.items():
        number, unit = levels[name].default.split(" ")
        assert float(number) * UNITS[unit] == getattr(defaults, field)
    assert {field for field, _ in limits.LIMITS.values()} | set(limits.LEVELS.values()) == {
        item.name for item in fields(Limits)
    }


def test_the_values_are_those_that_the_reader_takes() -> None:
    assert keys.PIPELINE_PROPERTIES["publication"].values == ", ".join(get_args(Publishing))
    assert keys.PIPELINE_PROPERTIES["evolution"].values == ", ".join(get_args(Evolution))
    assert keys.SERVER["format"].values == ", ".join(get_args(Format))
    for name, known in (
        ("framing", Framing),
        ("keyFormat", KeyFormat),
        ("otherRecords", OtherRecords),
        ("subjectNameStrategy", SubjectNameStrategy),
    ):
        assert keys.SERVER_PROPERTIES[name].values == ", ".join(get_args(known))
    assert schema_keys.TABLE_PROPERTIES["disposition"].values == ", ".join(get_args(Disposition))
    assert schema_keys.BATCH_RULE["severity"].values == ", ".join(get_args(Severity))


def test_the_types_are_all_there_are() -> None:
    assert [entry.name for entry in keys.TYPES if entry.name.isalpha()] == [*FIXED]
    for entry in keys.TYPES:
        of = column_type(entry.name.replace("precision", "18").replace("scale", "2").replace("type", "string"))
        assert of.logical_types == entry.logical
        assert of.postgres.partition("(")[0] == entry.postgres.replace("type", "text").partition("(")[0]
        assert set(entry.options) <= set(schema_keys.OPTIONS.names())
