"""Options by their names in Java's producer: the error gives librdkafka's name, and the unit."""

import pytest

from platform_defs.errors import BadInput
from platform_defs.producer_options.java_names import JAVA, java_answer
from platform_defs.producer_options.options import ALIASES, OPTIONS
from platform_defs.producer_options.values import read_option
from tests.support.kafka.librdkafka import Configuration

UNKNOWN = "No such configuration property"


def test_every_name_of_the_table_is_one_of_the_library_and_names_of_java_are_in_order() -> None:
    assert list(JAVA) == sorted(JAVA)
    for option in JAVA.values():
        refusal = Configuration().refusal(option.name, "?") if option.name else None
        assert UNKNOWN not in (refusal or ""), option
        if not option.name:
            assert UNKNOWN in (Configuration().refusal(option.java, "?") or ""), option
            assert option.note


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        (
            "buffer.memory",
            "33554433",
            "librdkafka's is queue.buffering.max.kbytes, in KiB instead of Java's bytes: "
            "queue.buffering.max.kbytes=32769 (see also queue.buffering.max.messages)",
        ),
        ("max.request.size", 1048576, "librdkafka's is message.max.bytes: message.max.bytes=1048576"),
        ("compression.lz4.level", "fast", "compression.lz4.level is Java's name; librdkafka's is compression.level"),
        ("key.serializer", "x", "librdkafka has no equivalent (keys are bytes;"),
        ("partitioner.class", "x", "librdkafka's is partitioner (a name, such as `keyed`,"),
        (
            "bootstrap.servers",
            "a:9092",
            "is a connection setting, not a producer option: set TIDEGATE_KAFKA_BOOTSTRAP_SERVERS",
        ),
        (
            "ssl.truststore.location",
            "x",
            "ssl.truststore.location (ssl.ca.location in librdkafka) is a connection setting",
        ),
    ],
)
def test_an_option_by_its_name_in_java_is_answered_with_librdkafkas(name: str, value: object, answer: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_option(name, value)
    assert answer in str(refused.value)


def test_an_option_that_librdkafka_takes_under_javas_name_is_taken() -> None:
    for name in [*OPTIONS, *ALIASES]:
        assert java_answer(name, "") is None
    assert read_option("delivery.timeout.ms", "1000") == ("message.timeout.ms", 1000)
    assert read_option("batch.size", 16_384) == ("batch.size", 16_384)
