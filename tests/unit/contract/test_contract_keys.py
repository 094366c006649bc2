"""The tables of contract/keys/contract_keys.py, which the reference is printed from, agree with the reader."""

from dataclasses import fields

import pytest
from open_data_contract_standard import model as odcs
from pydantic import BaseModel

from platform_defs.contract.document.section import Key, Section
from platform_defs.contract.keys import contract_keys, schema_keys, topic_keys, wire_keys
from platform_defs.contract.model.column_types import FIXED, column_type
from platform_defs.contract.model.contract import Contract, Field, Limits, WireFormat
from platform_defs.contract.model.topic import TopicKeys

MODELS = [
    (contract_keys.CONTRACT, odcs.OpenDataContractStandard),
    (contract_keys.SERVER, odcs.Server),
    (contract_keys.SERVICE_LEVEL_ENTRY, odcs.ServiceLevelAgreementProperty),
    (contract_keys.CUSTOM_ENTRY, odcs.CustomProperty),
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
    for key in contract_keys.SERVICE_LEVELS.keys:
        number, unit = key.default.split(" ")
        assert float(number) * UNITS[unit] == getattr(Limits, key.attribute)


@pytest.mark.parametrize(
    ("listed", "model"),
    [
        ((*contract_keys.LIMITS, *contract_keys.SERVICE_LEVELS.keys), Limits),
        (contract_keys.SETTINGS, Contract),
        (wire_keys.SERVER_PROPERTIES.keys, WireFormat),
        (wire_keys.FIELD_PROPERTIES.keys, Field),
        (topic_keys.TOPIC_KEYS, TopicKeys),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_every_key_is_an_attribute_of_the_model(listed: tuple[Key, ...], model: type) -> None:
    attributes, names = {item.name for item in fields(model)}, {key.attribute for key in listed}
    assert names - attributes <= {"subject_name_strategy"}  # it decides `subject`
    assert model is not Limits or names == attributes


def test_the_types_are_all_there_are() -> None:
    assert [entry.name for entry in contract_keys.TYPES if entry.name.isalpha()] == [*FIXED]
    for entry in contract_keys.TYPES:
        of = column_type(entry.name.replace("precision", "18").replace("scale", "2").replace("type", "string"))
        assert of.logical_types == entry.logical
        assert of.postgres.partition("(")[0] == entry.postgres.replace("type", "text").partition("(")[0]
        assert set(entry.options) <= set(schema_keys.OPTIONS.names())
