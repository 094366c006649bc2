"""The messages: one producer for all topics, and when each message was sent."""

import itertools
import threading
import time
from array import array
from collections.abc import Mapping, Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.many.plan import PARTITIONS, Planned

SLICES = 10  # a second; a topic with one message a second gets it in one of them
AT_ONCE = 50  # topics created in one request
LINGER = 500  # ms for which the producer collects messages: with 100, its requests were half of the load

# By topic and partition: when each offset was sent, in seconds since the epoch.
Times = Mapping[str, Sequence["array[float]"]]


def create_topics(options: Mapping[str, str], topics: Sequence[str]) -> None:
    """Create these topics with PARTITIONS partitions each."""
    admin = AdminClient(dict(options))
    for start in range(0, len(topics), AT_ONCE):
        wanted = [NewTopic(topic, PARTITIONS, 1) for topic in topics[start : start + AT_ONCE]]
        for future in admin.create_topics(wanted).values():
            future.result(60)


def recreate_topic(options: Mapping[str, str], topic: str) -> None:
    """Delete a topic and create it again: its pipeline halts."""
    admin = AdminClient(dict(options))
    admin.delete_topics([topic])[topic].result(30)
    until = time.monotonic() + 30
    while topic in admin.list_topics(timeout=10).topics and time.monotonic() < until:
        time.sleep(0.1)
    create_topics(options, [topic])


class Load:
    """Sends to every topic at its rate, in a thread, until it is stopped.

    There is no other producer, so the n-th message sent to a partition has the offset n.
    """

    def __init__(self, options: Mapping[str, str], planned: Sequence[Planned]) -> None:
        self._planned = planned
        self._producer = Producer({**options, "enable.idempotence": True, "linger.ms": LINGER, "log_level": 2})
        self.times = {item.topic: [array("d") for _ in range(PARTITIONS)] for item in planned}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._send_all, name="load", daemon=True)

    @property
    def messages(self) -> int:
        """The number of messages sent so far."""
        return sum(len(sent) for topic in self.times.values() for sent in topic)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until what was sent is acknowledged. Raises RuntimeError if it is not."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if left := self._producer.flush(60):
            raise RuntimeError(f"{left} messages were not acknowledged within 60 s")

    def _send_all(self) -> None:
        started = time.monotonic()
        for number in itertools.count():
            for item in self._planned:
                for _ in range(_due(item, number)):
                    self._send(item.topic)
            self._producer.poll(0)
            if self._ending.wait(max(0.0, started + (number + 1) / SLICES - time.monotonic())):
                return

    def _send(self, topic: str) -> None:
        sent = self.times[topic]
        number = sum(map(len, sent))
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        value = f'{{"event_id":"e-{number}","visitor":"v1","url":"https://example.org/","viewed_at":"{stamp}"}}'
        self._producer.produce(topic, value.encode(), partition=number % PARTITIONS)
        sent[number % PARTITIONS].append(now)


def _due(item: Planned, number: int) -> int:
    """Return how many messages the pipeline's topic gets in this slice."""
    if item.rate >= SLICES:
        return item.rate // SLICES
    return int((number + item.number) % (SLICES // item.rate) == 0)
