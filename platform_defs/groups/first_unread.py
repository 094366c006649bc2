"""The time of the first unread messages: one message of each partition is read, by a consumer without a group."""

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from platform_defs.errors import error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.block import timestamp_ms
from platform_defs.kafka.client.reader import Reader
from platform_defs.kafka.client.refusals import refusal, refusing
from platform_defs.kafka.client.rights import Right
from platform_defs.kafka.group_state import Place
from platform_defs.kafka.source import READING

SECONDS = 5.0  # for all partitions together; those without an answer by then stay unknown
# Messages of open and aborted transactions count as unread too. A fetch has one batch of some partitions, not 50 MB.
ONE_OF_EACH: Mapping[str, Any] = {
    "isolation.level": "read_uncommitted",
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1_024,
    "fetch.message.max.bytes": 65_536,
    "fetch.max.bytes": 1_048_576,
}


def first_unread(
    options: Mapping[str, Any], offsets: Mapping[Place, int], seconds: float = SECONDS
) -> tuple[dict[Place, int | None], tuple[str, ...]]:
    """Return the timestamp of the first message at or past each offset, in ms since the epoch, by partition; None if
    there is no message, or it has no timestamp. Then why others are unknown, each reason only once.

    Needs the right Read on the topics.
    """
    if not offsets:
        return {}, ()
    with refusing("a consumer", options):
        consumer = Reader({**options, **READING, **ONE_OF_EACH})
    found, problems, until = dict[Place, int | None](), dict[str, None](), time.monotonic() + seconds
    with closing(consumer):
        consumer.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()])
        waiting = {*offsets}
        while waiting and time.monotonic() < until:
            for message in consumer.consume(100, timeout=0.1):
                place = str(message.topic()), int(message.partition() or 0)
                error = message.error()
                if place not in waiting or (
                    error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
                ):
                    continue  # a second message of a batch; or about a coordinator, which is not needed here
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    found[place] = timestamp_ms(*message.timestamp()) if error is None else None
                elif error_policy.of_kafka(error.name()) is ErrorPolicy.DENIED:
                    needed = [Right("topic", place[0], ("Read",))]
                    problems[str(refusal(error, f"to read {place[0]}", needed, options))] = None
                elif error.retriable():
                    continue
                else:
                    problems[f"{place[0]}-{place[1]} cannot be read at offset {offsets[place]}: {error.str()}"] = None
                waiting.discard(place)
                consumer.pause([TopicPartition(*place)])
    if waiting:
        problems[
            f"{len(waiting)} of {plural(len(offsets), 'partition')} returned no message within {seconds:.0f} s"
        ] = None
    return found, tuple(problems)
