"""librdkafka's consumer, as every module here creates it."""

import json
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from platform_defs.kafka.client.connection_log import ConnectionLog

FOLLOW_AFTER = 1 / 6  # of its user's patience: a consumer without messages for so long makes way for a Follower


class Reader(Consumer):
    """A consumer that knows why it got no messages."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        self.connection_log = ConnectionLog()
        super().__init__({**conf, "error_cb": self.connection_log})


class Follower(Reader):
    """A consumer of one partition that knows how far it has fetched, even if the log has no messages for it.

    librdkafka skips aborted transactions without a message or an end of partition, for as long as there are any. Only
    its statistics show the progress (https://github.com/confluentinc/librdkafka/blob/master/STATISTICS.md). They cost a
    line for each partition of the topic twice a second, so a Follower takes over only if no messages come.
    """

    def __init__(self, conf: Mapping[str, Any], place: TopicPartition) -> None:
        """Assign `place` permanently: after a second assignment, librdkafka would show the first one's progress."""
        self.fetched = -1
        self._topic, self._partition = place.topic, str(place.partition)
        super().__init__({**conf, **_SHOWN, "stats_cb": self._note})
        self.assign([place])

    def _note(self, statistics: str) -> None:
        """Set `fetched`: consume() has returned all messages below it when it has waited in vain after this call.

        The thread that fetches puts a response's messages into the queue, and only then moves `next_offset` past them
        (rd_kafka_msgset_reader_run). An error in place of messages is in the queue as well, and moves it too.
        """
        topic = json.loads(statistics)["topics"].get(self._topic, {})
        self.fetched = topic.get("partitions", {}).get(self._partition, {}).get("next_offset", -1)


_SHOWN: Mapping[str, Any] = {
    "statistics.interval.ms": 500,
    # Also bounds a response, unless `fetch.max.bytes` is set. Skipped messages show as progress only when a response
    # has arrived, and librdkafka doubles its request after each response without messages.
    "queued.max.messages.kbytes": 1_024,
}
