"""The reader's handling of whatever the Kafka client returns."""

import pytest
from confluent_kafka import KafkaError, Message

from platform_defs.errors import MessageMisplaced
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange

WANTED = OffsetRange("here", 1, 100, 200)
SOURCE = KafkaSource({"bootstrap.servers": "nobody:9092"})


def delivered(offset: int, topic: str = "here", partition: int = 1) -> Message:
    return Message(topic=topic, partition=partition, offset=offset, value=b"{}")


def end(offset: int, topic: str = "here", partition: int = 1) -> Message:
    reached = KafkaError(KafkaError._PARTITION_EOF)
    return Message(topic=topic, partition=partition, offset=offset, error=reached)


def test_messages_and_the_end_of_the_partition_say_how_far_it_is_known() -> None:
    polled = [delivered(150), delivered(153)]
    assert SOURCE._sort_out(polled, WANTED, 150) == (polled, 154)
    assert SOURCE._sort_out([*polled, end(160)], WANTED, 150) == (polled, 160)
    assert SOURCE._sort_out([], WANTED, 150) == ([], 150)


@pytest.mark.parametrize(
    "stray",
    [
        delivered(150, topic="there"),
        delivered(150, partition=0),
        delivered(149),
        end(200, topic="there"),
        end(200, partition=0),
    ],
    ids=["other topic", "other partition", "read before", "end of another topic", "end of another partition"],
)
def test_what_is_not_of_the_range_is_neither_a_message_nor_a_proof(stray: Message) -> None:
    """A cached consumer might return messages left over from the range before."""
    with pytest.raises(MessageMisplaced, match=r"while reading here partition 1 \[100, 200\), .* returned t?here\["):
        SOURCE._sort_out([stray, delivered(150)], WANTED, 150)
