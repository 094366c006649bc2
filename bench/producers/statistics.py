"""librdkafka's statistics of a producer, summed over its life.

https://github.com/confluentinc/librdkafka/blob/v2.16.0/STATISTICS.md: `batchcnt` and `batchsize` cover only the last
interval, so their sums are added up; `tx_bytes` counts from the start.
"""

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class ProducerStatistics:
    """A `stats_cb`. Called by the thread that polls the producer.

    It counts `batches`, their `messages`, `batch_bytes` (compressed, with the framing of batches) and `wire_bytes` (of
    all requests to brokers) since the last `restart`.
    """

    topic: str
    batches: int = 0
    messages: int = 0
    batch_bytes: int = 0
    wire_bytes: int = 0
    _before: int = 0  # bytes sent before the restart
    _sent: int = 0

    def __call__(self, text: str) -> None:
        found: dict[str, Any] = json.loads(text)
        self._sent = found["tx_bytes"]
        self.wire_bytes = self._sent - self._before
        topic = found["topics"].get(self.topic)
        if topic is not None:
            self.batches += topic["batchcnt"]["cnt"]
            self.messages += topic["batchcnt"]["sum"]
            self.batch_bytes += topic["batchsize"]["sum"]

    def restart(self) -> None:
        """Reset the counts."""
        self.batches = self.messages = self.batch_bytes = self.wire_bytes = 0
        self._before = self._sent
