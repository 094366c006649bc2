"""Keys that begin with the ids of several schemas cause a warning if the id decides the partition."""

from dataclasses import replace

import pytest

from platform_defs.contract.model.contract import Contract, Framing, WireFormat
from platform_defs.ledger.answers import Part, UsedSchema
from platform_defs.schemas.dagster.check import keys_apart

CONTRACT = Contract("p", "1", "d", "", "t", "avro", (), (), wire=WireFormat(key_format="avro"))


def used(key: str, part: Part = "key") -> UsedSchema:
    return UsedSchema("p", "r", 1, key, part, of_late=True)


def test_two_schemas_of_keys_in_two_partitions_are_a_warning() -> None:
    found = keys_apart(CONTRACT, [used("11"), used("9"), used("7", "value")], lambda: 2)
    assert found is not None
    assert "keys begin with the ids of 2 schemas (9, 11)" in found.why


@pytest.mark.parametrize(
    ("framing", "keys", "partitions"),
    [("header", ("9", "11"), 2), ("prefix", ("9", "9"), 2), ("prefix", ("9", "11"), 1), ("both", ("9", "a-guid"), 2)],
)
def test_keys_whose_bytes_stay_the_same_are_not_warned_of(
    framing: Framing, keys: tuple[str, ...], partitions: int
) -> None:
    contract = replace(CONTRACT, wire=WireFormat(framing, key_format="avro"))
    assert keys_apart(contract, [used("8", "value"), *map(used, keys)], lambda: partitions) is None
