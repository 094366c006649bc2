"""Trials for `tidegate doctor`: read from a partition, write a message, as a client does."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_END, TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Producer, TopicPartition

from platform_defs.doctor.findings.trials import Place, Written
from platform_defs.kafka.client.refusals import refusing
from platform_defs.kafka.source import READING


@dataclass(frozen=True)
class Trial:
    """Trials of a client. `options` are librdkafka's, with `bootstrap.servers`; each trial takes at most `seconds`."""

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    seconds: float = 3.0

    def read(self, places: Iterable[Place]) -> dict[Place, str | None]:
        """Fetch from the end of each place, or from its offset. Return None if its leader answered the fetch, with a
        message or with the end of the partition; else why not. No offset is committed and no group joined.
        """
        left = {(place.topic, place.partition): place for place in places}
        answers = dict[Place, str | None]()
        with refusing("a consumer"):
            consumer = Consumer({**self.options, **READING})
        try:
            starts = ((at.topic, at.partition, OFFSET_END if at.offset is None else at.offset) for at in left.values())
            consumer.assign([TopicPartition(*start) for start in starts])
            deadline = time.monotonic() + self.seconds
            while left and (wait := deadline - time.monotonic()) > 0:
                if (found := consumer.poll(wait)) is None:
                    continue
                partition: int | None = found.partition()
                if (place := left.pop((found.topic() or "", -1 if partition is None else partition), None)) is not None:
                    answers[place] = _refusal(found.error())
        finally:
            consumer.close()
        return answers | dict.fromkeys(left.values(), f"no answer within {self.seconds:g} s")

    def write(self, topic: str) -> Written:
        """Write one message to `topic`, which exists: a producer would create a missing one."""
        written = list[Written]()
        own: dict[str, Any] = {"acks": "all", "enable.idempotence": True, "linger.ms": 0}
        own["message.timeout.ms"] = round(self.seconds * 1000)
        with refusing("a producer"):
            producer = Producer({**self.options, **own})

        def note(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                written.append(Written(message.topic(), problem=_refusal(error)))
                return
            kind, stamp = message.timestamp()
            behind = stamp / 1000 - time.time() if kind == TIMESTAMP_LOG_APPEND_TIME else None
            written.append(Written(message.topic(), message.partition(), message.offset(), behind=behind))

        producer.produce(topic, b"written by tidegate doctor", on_delivery=note)
        producer.flush(self.seconds + 1)
        return written[0] if written else Written(topic, problem=f"no answer within {self.seconds:g} s")


def _refusal(error: KafkaError | None) -> str | None:
    if error is None or error.name() == "_PARTITION_EOF":
        return None
    return f"{error.str()} ({error.name()})"
