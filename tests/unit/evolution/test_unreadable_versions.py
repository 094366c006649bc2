"""A subject's version whose schema cannot be read: the message about it is true, whatever the cause."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from platform_defs.contract.model.contract import Contract, WireFormat
from platform_defs.errors import BadInput
from platform_defs.samples.mixture import samples_of
from platform_defs.schemas.conversion.exchange import import_from_registry
from platform_defs.schemas.conversion.importing import Wanted
from platform_defs.schemas.survey import survey
from platform_defs.settings.contracts import find_contract
from platform_defs.settings.registry_address import Registry
from tests.unit.registry.registry_double import Answer, refuses, registry_double, says

SAID = "no readable schema: it is unknown, of a different type, or one of its references is missing"
REFERS = {"schema": '"int"', "references": [{"name": "a", "subject": "gone", "version": 1}]}


@pytest.fixture(
    params=[refuses(404, 40403), says({"schema": "x", "schemaType": "THRIFT"}), says({"schema": '"\0"'}), says(REFERS)],
    ids=["unknown", "of another type", "not a text", "a reference is missing"],
)
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    answer: Answer = request.param
    with registry_double() as server:
        server.answers["/subjects/t-value/versions"] = says([3])
        for version in ("3", "latest"):
            server.answers[f"/subjects/t-value/versions/{version}"] = says({"id": 7, "version": 3})
        server.answers["/schemas/ids/7"] = answer
        server.posts["/subjects/t-value"] = refuses(404, 40403)
        yield Registry({"url": server.url})


@pytest.fixture
def contract() -> Contract:
    return replace(find_contract("bank_transfers"), topic="t", format="avro", wire=WireFormat("prefix", "t-value"))


def test_it_does_not_fit_the_contract(registry: Registry, contract: Contract) -> None:
    (found,) = survey(contract, registry, None, "default").schemas
    assert (found.fit, found.version) == ("does not fit", 3)
    assert SAID in found.reason


def test_no_contract_is_made_of_it(registry: Registry) -> None:
    with pytest.raises(BadInput, match=f"version 3 of t-value \\(id 7\\) cannot be used: .*{SAID}"):
        import_from_registry("t-value", registry, Wanted())


def test_no_message_is_written_with_it(registry: Registry, contract: Contract) -> None:
    with pytest.raises(BadInput, match=f"newest version of t-value \\(id 7\\) cannot be used: .*{SAID}"):
        samples_of(contract, registry, 1)
