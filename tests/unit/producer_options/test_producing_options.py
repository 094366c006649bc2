"""A producer's options are those of the installed library: an upgrade that changes one fails here."""

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from platform_defs.producer_options.options import ALIASES, OPTIONS, PROMISED, Option, own_name
from platform_defs.producer_options.presets import DEFAULT, PRESETS
from platform_defs.producers.outcomes import CODES, outcome_of
from tests.support.kafka.librdkafka import Configuration, refusal_of

A1 = {  # the defaults that docs and presets give for a producer without options
    "acks": "-1",
    "enable.idempotence": "false",
    "retries": "2147483647",
    "retry.backoff.ms": "100",
    "retry.backoff.max.ms": "1000",
    "message.timeout.ms": "300000",
    "delivery.timeout.ms": "300000",
    "transaction.timeout.ms": "60000",
    "max.in.flight": "1000000",
    "batch.size": "1000000",
    "batch.num.messages": "10000",
    "linger.ms": "5",
    "queue.buffering.max.kbytes": "1048576",
    "queue.buffering.max.messages": "100000",
    "sticky.partitioning.linger.ms": "10",
    "partitioner": "consistent_random",
    "client.id": "rdkafka",
    "compression.type": "none",
}
numbers = pytest.mark.parametrize("option", [one for one in OPTIONS.values() if one.highest], ids=lambda one: one.name)


def test_the_library_is_the_one_that_the_tables_are_about() -> None:
    assert confluent_kafka.libversion()[0].startswith("2.16.")


@pytest.mark.parametrize("name", A1)
def test_a_producer_left_alone_has_the_default_that_is_documented(name: str) -> None:
    assert Configuration().default(name) == A1[name]


@pytest.mark.parametrize("name", ["buffer.memory", "max.block.ms"])
def test_options_of_java_are_unknown(name: str) -> None:
    assert Configuration().default(name) is None


def test_the_library_has_no_round_robin() -> None:
    assert Configuration().refusal("partitioner", "round_robin")


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda one: one.name)
def test_an_option_has_the_librarys_default_by_each_of_its_names(option: Option) -> None:
    written = "-1" if option.name == "acks" else str(option.default).lower()
    found = {Configuration().default(name) for name in (option.name, *option.aliases)}
    assert found == ({None} if option.default == "" else {written})


@numbers
def test_a_number_is_taken_within_its_limits_alone(option: Option) -> None:
    conf = Configuration()
    assert conf.refusal(option.name, option.lowest) == conf.refusal(option.name, option.highest) == ""
    assert conf.refusal(option.name, option.lowest - 1)
    assert option.highest == 2**31 - 1 or conf.refusal(option.name, option.highest + 1)


@pytest.mark.parametrize("option", [one for one in OPTIONS.values() if one.choices], ids=lambda one: one.name)
def test_each_choice_is_taken_and_another_is_not(option: Option) -> None:
    assert [Configuration().refusal(option.name, choice) for choice in option.choices] == [""] * len(option.choices)
    assert Configuration().refusal(option.name, "something")


def test_an_option_has_one_name_here() -> None:
    assert {own_name(alias) for alias in ALIASES} <= {*OPTIONS}
    assert own_name("request.required.acks") == "acks"
    assert own_name("security.protocol") == "security.protocol"
    assert {*PROMISED} <= {*OPTIONS}


@pytest.mark.parametrize("name", PRESETS)
def test_the_library_takes_every_preset(name: str) -> None:
    named = {"transactional.id": "t"} if PRESETS[name].waits == "commit" else {}
    assert refusal_of({**PRESETS[name].options, **named}) == ""


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_why_each_option_has_its_value(name: str) -> None:
    preset = PRESETS[name]
    assert preset.reasons.keys() == preset.options.keys() <= OPTIONS.keys()
    assert all(reason.endswith(".") for reason in preset.reasons.values())


def test_the_presets_in_the_order_of_what_they_promise() -> None:
    assert " ".join(PRESETS) == (
        "fire_and_forget leader at_least_once one_in_flight asynchronous synchronous transactional"
    )
    assert [PRESETS[name].options["acks"] for name in PRESETS] == [0, 1, *["all"] * 5]
    assert [name for name in PRESETS if PRESETS[name].options["enable.idempotence"]] == [*PRESETS][4:]
    assert DEFAULT == "asynchronous"


@pytest.mark.parametrize("name", CODES)
def test_an_outcome_is_listed_under_the_number_that_the_library_has(name: str) -> None:
    number, outcome = CODES[name]
    assert number == getattr(KafkaError, name)
    assert outcome_of(number) == outcome


def test_what_is_not_listed_is_unknown_so_that_nobody_sends_it_again_unseen() -> None:
    assert outcome_of(12345) == "unknown"
