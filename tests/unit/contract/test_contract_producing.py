"""A contract's settings for its topic's producers, which change nothing about rows."""

from pathlib import Path

import pytest

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.digest import definitions_digest
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.contract.odcs_writer import contract_digest, same_words, text
from platform_defs.contract.reader.odcs import load
from platform_defs.errors import BadInput
from platform_defs.producer_options.config import Producing
from tests.unit.contract.contract_mistakes import GOOD

HERE = Path("orders.odcs.yaml")
PLACE = (
    "    physicalName: shop.orders\n    properties:\n      - name: order_id\n        logicalType: string\n        req"
)
LINE = GOOD[: GOOD.index(PLACE)].count("\n") + 3  # the first line put into PLACE


def saying(producer: str, *options: str) -> Contract:
    """Return the good contract, with a preset and options of its own."""
    lines = [f"      - {{property: producer, value: {producer}}}"]
    if options:
        lines += ["      - property: producerOptions", "        value:", *(f"          {one}" for one in options)]
    head, _, rest = PLACE.partition("\n")
    written = "\n".join([head, "    customProperties:", *lines, rest])
    return load(HERE, GOOD.replace(PLACE, written, 1))


def test_a_contract_that_says_nothing_has_the_default_and_keeps_its_keys() -> None:
    plain = load(HERE, GOOD).producing
    assert plain == Producing("asynchronous", {})
    assert plain.chosen().partitioner == "keyed-crc32"


def test_a_contract_says_a_preset_and_options_by_any_name_of_librdkafka() -> None:
    message = saying("leader", "queue.buffering.max.ms: 50", "partitioner: keyed", "request.required.acks: 0").producing
    assert message == Producing("leader", {"linger.ms": 50, "partitioner": "keyed", "acks": 0})
    assert (message.chosen().partitioner, message.chosen().options["retries"]) == ("keyed", 100)
    assert message.chosen("synchronous", {"linger.ms": "60"}, {"acks": "all"}).options["linger.ms"] == 60


def test_how_a_topic_is_written_changes_neither_the_contract_nor_its_rows() -> None:
    plain, message = load(HERE, GOOD), saying("synchronous", "linger.ms: 50")
    assert contract_digest(plain) == contract_digest(message)
    assert same_words(plain, message)
    assert text(plain) == text(message)
    assert definitions_digest([Pipeline(plain)]) == definitions_digest([Pipeline(message)])


@pytest.mark.parametrize(
    ("preset", "option", "field", "message"),
    [
        ("asynchronous", "acks: 1", "acks", "`acks` must be set to `all` when `enable.idempotence` is true"),
        ("asynchronous", "max.in.flight: 6", "max.in.flight", "`max.in.flight` must be set <= 5"),
        ("transactional", "message.timeout.ms: 90000", "message.timeout.ms", "<= `transaction.timeout.ms`"),
        ("leader", "acks: 2", "acks", "acks must be one of 0, 1, all, not 2"),
        ("leader", "lingr.ms: 5", "lingr.ms", "did you mean linger.ms"),
        ("leader", "bootstrap.servers: kafka", "bootstrap.servers", "a connection setting, not a producer option"),
        ("leader", "transactional.id: t", "transactional.id", "requires the preset transactional"),
    ],
)
def test_an_option_that_cannot_be_is_refused_at_its_line(preset: str, option: str, field: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        saying(preset, option)
    error = refused.value
    assert message in error.problem
    assert (error.file, error.line) == ("orders.odcs.yaml", LINE + 3)
    assert error.field == f"orders.producerOptions.value.{field}"


def test_a_contradiction_with_the_preset_alone_names_the_options() -> None:
    with pytest.raises(BadInput, match=r"`message.timeout.ms` must be set <= `transaction.timeout.ms`") as refused:
        saying("transactional", "transaction.timeout.ms: 10000")
    assert refused.value.field == "orders.producerOptions.value"


def test_a_preset_that_does_not_exist_is_refused_at_its_line() -> None:
    with pytest.raises(BadInput, match="there is no preset 'asyncronous'; did you mean asynchronous") as refused:
        saying("asyncronous")
    assert (refused.value.line, refused.value.field) == (LINE, "orders.producer.value")


def test_an_option_by_two_of_its_names_is_refused() -> None:
    with pytest.raises(BadInput, match=r"linger.ms is set twice"):
        saying("leader", "linger.ms: 5", "queue.buffering.max.ms: 6")


def test_options_are_a_mapping() -> None:
    listed = "      - {property: producerOptions, value: [linger.ms]}"
    with pytest.raises(BadInput, match="a mapping with librdkafka's option names"):
        load(HERE, GOOD.replace(PLACE, PLACE.replace("\n", f"\n    customProperties:\n{listed}\n", 1), 1))
