"""The consumer groups for which Tidegate commits offsets, by name. Pipelines do not read them: their position is in the
ledger.

`tidegate-<pipeline>` shows a pipeline's progress to Kafka's own tools. `tidegate.<pipeline>.asset` records which run of
Dagster has written a topic, so that a retried run writes nothing twice (producers/written_topics.py).
"""

import re
import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, TopicPartition

from platform_defs.errors import BrokerAway
from platform_defs.kafka.client.reader import Reader
from platform_defs.kafka.client.refusals import refusal, refusing
from platform_defs.kafka.client.rights import Right, to_run

ANSWER = 5.0  # seconds
POLL = 0.05  # seconds
_PROGRESS = "tidegate-"
_RECORD = re.compile(r"tidegate\.(\w+)\.asset(?:\..*)?", re.DOTALL)


def progress_group(pipeline: str) -> str:
    """Return the group that shows the progress of a pipeline."""
    return f"{_PROGRESS}{pipeline}"


def record_group(pipeline: str) -> str:
    """Return the group, and the transactional.id, with which Dagster writes the topic of a pipeline's contract."""
    return f"tidegate.{pipeline}.asset"


def shown_pipeline(group: str, pipelines: Collection[str]) -> str | None:
    """Return the one of `pipelines` whose progress the group shows; None for another group."""
    name = group.removeprefix(_PROGRESS)
    return name if name != group and name in pipelines else None


def recording_pipeline(group: str) -> str | None:
    """Return the pipeline whose topic Dagster writes, if the group records those runs; else None."""
    found = _RECORD.fullmatch(group)
    return found[1] if found else None


def show_progress(options: Mapping[str, str], group: str, topic: str, next_offsets: Mapping[int, int]) -> None:
    """Commit a consumer group's offsets. Never read back.

    A consumer that joins no group commits them: the same request of an AdminClient ends the process if the group's
    coordinator cannot be found (child.py).

    Raises BrokerAway, also if the group has a member from another program, since the broker then refuses; AccessDenied
    without the right.
    """
    place = f"to commit the offsets of the consumer group {group}"
    needed = (Right("group", group, ("Read",)), to_run(topic))
    answers = list[KafkaError | None]()

    def answered(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        answers.extend([error, *(one.error for one in partitions)])  # Kafka refuses a commit in each partition

    own = {
        "group.id": group,
        "group.protocol": "classic",
        "session.timeout.ms": round(1000 * ANSWER),  # librdkafka searches the coordinator for so long, also in close()
        "enable.auto.commit": False,
        "on_commit": answered,
    }
    with refusing("a consumer that commits", options):
        client = Reader({**options, **own})
    try:
        client.commit(offsets=[TopicPartition(topic, *at) for at in sorted(next_offsets.items())], asynchronous=True)
        limit = time.monotonic() + 2 * ANSWER
        while not answers and time.monotonic() < limit:
            message = client.poll(POLL)
            if message is not None and (denied := message.error()) and refusal(denied, place):
                answers.append(denied)
    finally:
        client.close()
    failed = next((error for error in answers if error is not None), None)
    if answers and failed is None:
        return
    reason = client.connection_log.denied or failed
    if reason is not None and (refused := refusal(reason, place, needed, options)) is not None:
        raise refused
    why = reason.str() if reason is not None else f"no answer within {2 * ANSWER:.0f} s"
    raise BrokerAway(f"the offsets of the consumer group {group} could not be committed: {why}")
