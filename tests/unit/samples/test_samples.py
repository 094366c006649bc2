"""Made-up messages: good ones are rows, bad ones fail for the reason they announce, whatever the contract."""

import json
import re
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Column, Contract, Field, RowRule, Table
from platform_defs.errors import BadInput
from platform_defs.samples.mixture import Mixture
from platform_defs.samples.samples import Samples
from platform_defs.settings.contracts import read_contracts
from platform_defs.verify.validators.validator import NoRow, Validator

pytestmark = pytest.mark.long


def field(
    name: str, kind: str = "string", *path: str, required: bool = False, examples: Any = (), **rules: Any
) -> Field:
    kinds: list[tuple[Any, Any]] = [*([("required", None)] if required else []), *rules.items()]
    made = tuple(RowRule(f"{name}_{rule}", name, rule, argument, "") for rule, argument in kinds)
    return Field(name, column_type(kind), required, made, examples=examples, physical_path=path)


def contract(*fields: Field, disposition: Any = "append") -> Contract:
    table = Table("t.t", disposition, tuple(Column(item.name, item.type, item.required) for item in fields))
    return Contract("p", "1", "d", "", "t", "json", fields, (table,))


DEVICES = contract(
    field("device_id", "string", "deviceId", required=True),
    field("city", "string", "user", "address", "city", required=True, max_length=20),
    field("street", "string", "user", "address", "100%.street"),
    field("visits", "integer", "user", "visits", minimum=0, maximum=9),
    field("payload", "json", "payload", required=True),
    field("tags", "json", "user", "tags", examples=('["a", {"b": 1.5}]',)),
    field("name", "string", "user", "näme"),
    field("address", "json", "user", "address", required=True),  # as a whole, besides the fields taken out of it
)


def values(samples: Samples, count: int = 2_000) -> list[bytes]:
    return [sample.value for sample in samples.good(count) if sample.value is not None]


@pytest.mark.parametrize("made", [*read_contracts().good, DEVICES], ids=lambda made: made.pipeline)
def test_good_messages_are_rows_and_bad_ones_give_their_reason(made: Contract) -> None:
    validator, samples = Validator(made), Samples(made, seed=1)
    good = list(samples.good(500))
    assert not [
        sample for sample in good if sample.value is not None and isinstance(validator.value(sample.value), NoRow)
    ]
    for number, sample in enumerate(good[:100]):
        bad = samples.bad(number, sample)
        assert validator.value(bad.value) == NoRow(bad.reason or "")


def test_nested_objects_are_made_where_the_paths_say() -> None:
    message = json.loads(values(Samples(DEVICES, seed=1))[0])
    assert set(message) == {"deviceId", "user", "payload"}
    assert set(message["user"]) == {"address", "visits", "tags", "näme"}
    assert set(message["user"]["address"]) == {"city", "100%.street"}
    assert set(message["payload"]) >= {"kind", "tags", "place"}


def test_each_way_in_which_a_nested_message_can_be_wrong_is_made() -> None:
    samples = Samples(DEVICES, seed=1)
    good = next(samples.good(1))
    bad = [samples.bad(number, good) for number in range(len(samples.reasons))]
    assert {"WrongType", "DuplicateKey", "NulCharacter", "InvalidUnicode", "OutOfRange", "TooDeep"} < set(
        samples.reasons
    )
    assert {"city_required", "city_max_length", "payload_required", "visits_minimum"} < set(samples.reasons)
    assert any(json.loads(b.value or b"").get("user") == "not an object" for b in bad if b.reason == "WrongType")
    assert len({b.value for b in bad}) == len(bad)


def test_ids_never_repeat_whether_they_are_counted_or_not() -> None:
    patterns: tuple[dict[str, Any], ...] = ({}, {"pattern": "T[0-9]{1,18}"}, {"pattern": "[0-9a-f]{8}-[0-9a-f]{12}"})
    for pattern in patterns:
        made = [json.loads(value)["order_id"] for value in values(Samples(contract(field("order_id", **pattern))))]
        assert len(set(made)) == len(made)


def test_an_integer_id_is_an_integer() -> None:
    made = values(Samples(contract(field("order_id", "integer", required=True))))
    assert all(type(json.loads(value)["order_id"]) is int for value in made)


def test_an_upserts_keys_are_few_and_are_the_ids() -> None:
    for pattern in ("C[0-9]{1,9}", "[a-z]{2}-[0-9a-f]{12}"):
        made = list(Samples(contract(field("c_id", pattern=pattern), disposition="upsert")).good(20_000))
        assert len({sample.key for sample in made}) <= 10_000
        assert 0 < sum(sample.value is None for sample in made) < 1_000
        assert all(json.loads(s.value)["c_id"].encode() == s.key for s in made if s.value is not None)


@pytest.mark.parametrize(
    "item",
    [
        field("f", pattern=r"[A-Z]{3}-\d{2}(?:x|yy)?"),
        field("f", pattern=r"\S+@\S+\.example", max_length=254),
        field("f", min_length=30, max_length=60),
        field("f", pattern=r"\pL{2}", examples=("éß",)),
        field("f", enum=("a", "b")),
        field("f", "integer", maximum=-5),
        field("f", "decimal(9,3)", minimum=Decimal("0.5"), maximum=Decimal("0.6")),
        field("f", "double", minimum=-1.5, maximum=-0.5),
        field("f", "date", minimum=date(2030, 1, 1)),
        field("f", "date", maximum=date(1999, 1, 1)),
        field("f", "timestamp", maximum=datetime(2020, 1, 1, tzinfo=UTC)),
        field("f", "timestamp", minimum=datetime(2090, 1, 1, tzinfo=UTC)),
        field("f", "boolean"),
        field("f", "json"),
    ],
    ids=lambda item: item.type.name,
)
def test_values_keep_the_rules_of_their_field(item: Field) -> None:
    validator, kept = Validator(contract(item)), 0
    for value in values(Samples(contract(item), seed=2), 300):
        row = validator.value(value)
        assert not isinstance(row, NoRow), value
        kept += row[0] is not None
    assert kept


@pytest.mark.parametrize("pattern", [r"\pL{3}", r"a\z", "[[:alpha:]]{70}"])
def test_a_pattern_that_shows_no_value_is_refused_with_what_to_do(pattern: str) -> None:
    with pytest.raises(BadInput, match="add examples to the field"):
        Samples(contract(field("f", pattern=pattern)))


def test_the_same_seed_makes_the_same_messages() -> None:
    made = contract(field("word"), field("payload", "json"), field("code", pattern="[a-z]{5}"))
    assert values(Samples(made, seed=5)) == values(Samples(made, seed=5)) != values(Samples(made, seed=6))


def test_bad_ones_are_spread_evenly_and_counted() -> None:
    mixture = Mixture(Samples(DEVICES, seed=1), 0.02)
    taken = [*mixture.take(700), *mixture.take(300)]
    assert (mixture.taken, mixture.good, mixture.bad.total()) == (1_000, 980, 20)
    assert mixture.bad == Counter(sample.reason for sample in taken if sample.reason)
    assert all(any(sample.reason for sample in taken[start : start + 100]) for start in range(0, 1_000, 100))


def test_no_key_and_no_text_makes_trouble_in_a_template() -> None:
    odd = ["%b", "%", '"', "\\", "", "é\n", "a.b"]
    made = contract(*(field(f"f{n}", "integer", "%s", key) for n, key in enumerate(odd)))
    assert list(json.loads(values(Samples(made))[0])["%s"]) == odd
    assert re.search(rb"%s", values(Samples(made))[0])
