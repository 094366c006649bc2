"""`tidegate contract register` if the registry refuses or stops answering: the error names what stays."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from platform_defs.contract.model.contract import Contract, WireFormat
from platform_defs.errors import BadInput, RegistryAway
from platform_defs.registry.subjects import Subjects
from platform_defs.schemas.conversion.exchange import register
from platform_defs.settings.contracts import find_contract
from platform_defs.settings.registry_address import Pace, Registry
from tests.unit.registry.registry_double import Answered, refuses, registry_double, says

OTHER = {"type": "record", "name": "Other", "fields": []}


@pytest.fixture
def server() -> Iterator[Answered]:
    """Yield a registry without schemas."""
    with registry_double() as found:
        yield found


def contract(**wire: Any) -> Contract:
    made = WireFormat("prefix", "t-value", **{"compatibility": "FULL", **wire})
    return replace(find_contract("bank_transfers"), topic="t", format="avro", wire=made)


def registry(server: Answered) -> Registry:
    return Registry({"url": server.url}, pace=Pace(pause=0.01))


def has_a_version(server: Answered, level: str | None) -> None:
    """Give the subject a version of another schema, and `level` as its own level."""
    server.answers["/subjects/t-value/versions/latest"] = says({"id": 90, "version": 1})
    server.answers["/schemas/ids/90"] = says({"schema": str(OTHER)})
    server.posts["/subjects/t-value"] = refuses(404, 40403)
    server.answers["/config/t-value"] = says({"compatibilityLevel": level}) if level else refuses(404, 40408)


def refuses_the_next(server: Answered) -> None:
    refused = {"is_compatible": False, "messages": ["no such field"]}
    server.posts["/compatibility/subjects/t-value/versions"] = says(refused)


@pytest.mark.parametrize("level", ["BACKWARD", "FULL", None])
def test_a_refused_schema_leaves_the_subject_and_its_keys_as_they_were(server: Answered, level: str | None) -> None:
    has_a_version(server, level)
    refuses_the_next(server)
    with pytest.raises(BadInput, match=r"compatibility: FULL.: no such field\. .*Nothing was registered or changed"):
        register(contract(key_format="avro"), registry(server))
    assert server.registered == []
    assert Subjects(registry(server)).level("t-value") == level


def test_a_level_that_cannot_be_restored_is_named(server: Answered) -> None:
    has_a_version(server, "BACKWARD")
    refuses_the_next(server)

    def once(handler: Any, answered: Answered) -> None:
        says({"compatibility": "FULL"})(handler, answered)
        answered.puts["/config/t-value"] = refuses(500)

    server.puts["/config/t-value"] = once
    with pytest.raises(
        BadInput, match=r"no such field.*These changes stay in the registry: t-value has the compatibility level FULL\."
    ):
        register(contract(), registry(server))


@pytest.mark.parametrize(("answer", "error"), [(refuses(422), BadInput), (refuses(500), RegistryAway)])
def test_where_the_keys_fail_the_values_are_registered_and_that_is_said(
    server: Answered, answer: Any, error: type[Exception]
) -> None:
    server.posts["/subjects/t-key/versions"] = answer
    perhaps = "; perhaps t-key has the schema" if error is RegistryAway else ""
    stays = re.escape(
        "These changes stay in the registry: t-value has the schema; t-value has the compatibility level "
        f"FULL{perhaps}. It is safe"
    )
    with pytest.raises(error, match=stays):
        register(contract(key_format="avro"), registry(server))
    assert len(server.registered) == 1


def test_a_schema_that_the_registry_does_not_give_is_no_matter_of_a_batch(server: Answered) -> None:
    has_a_version(server, "FULL")
    server.answers["/schemas/ids/90"] = refuses(503)
    with pytest.raises(
        RegistryAway, match=r"no usable answer for schema 90 .*stack status.* stack up\. Nothing was registered"
    ) as away:
        register(contract(), replace(registry(server), patience=0.5))
    assert "batch" not in str(away.value)


def test_the_keys_get_the_schema_of_a_text_after_the_values(server: Answered) -> None:
    done = register(contract(key_format="avro"), registry(server))
    assert (done.key, done.level, done.new) == ("1", "FULL", True)
    assert server.registered[1]["schema"] == '"string"'
