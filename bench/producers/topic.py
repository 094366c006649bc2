"""The topic of one round: one partition, created with the wanted leader, read back in full, deleted."""

import time
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.producers.sending import HEAD, QUIET
from platform_defs.errors import BrokerAway

BOUND = 60.0  # seconds for a request to the brokers to take effect
_READ = 5_000  # messages per call of the client


class Topic:
    """A topic of one partition on `replicas`, the first of which leads. The brokers in `down` are not running."""

    def __init__(
        self, addresses: str, name: str, replicas: Sequence[int], config: Mapping[str, str], down: Collection[int] = ()
    ) -> None:
        self.name, self._addresses, self._replicas = name, addresses, set(replicas) - set(down)
        self._admin: Any = AdminClient({"bootstrap.servers": addresses, **QUIET})
        new = NewTopic(name, 1, replica_assignment=[list(replicas)], config=dict(config))
        self._admin.create_topics([new])[name].result(BOUND)
        self.wait_until_whole()

    @property
    def leader(self) -> int:
        """The number of the broker that leads it; -1 for none."""
        return self._described()[0]

    @property
    def in_sync(self) -> set[int]:
        return self._described()[1]

    def wait_until_whole(self) -> None:
        """Wait until every replica is in sync, except on a broker that was down when the topic was created."""
        wait_until(lambda: self.leader > 0 and self.in_sync == self._replicas, f"{self.name} is whole")

    def configure(self, name: str, value: str) -> None:
        """Set one key of its configuration."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(BOUND)

    def elect_unclean(self) -> None:
        """Elect a leader that is not in sync."""
        self._admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(self.name, 0)]).result(BOUND)

    def numbers(self, *, committed: bool = True, producer: int = 1) -> Sequence[int]:
        """Return the numbers of that producer's messages in the order of the log."""
        isolation = "read_committed" if committed else "read_uncommitted"
        found = array("q")
        for of, number, _ in map(HEAD.unpack_from, self._values(isolation)):
            if of == producer:
                found.append(number)
        return found

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(BOUND)

    def _values(self, isolation: str) -> list[bytes]:
        options: dict[str, Any] = {"group.id": "measure", "enable.auto.commit": False, "enable.partition.eof": True}
        options |= {"bootstrap.servers": self._addresses, "isolation.level": isolation, **QUIET}
        consumer, found = Consumer(options), list[bytes]()
        try:
            consumer.assign([TopicPartition(self.name, 0, OFFSET_BEGINNING)])
            until = time.monotonic() + BOUND
            while time.monotonic() < until:
                for message in consumer.consume(_READ, 0.5):
                    error = message.error()
                    if error is None:
                        found.append(message.value() or b"")
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return found
        finally:
            consumer.close()
        raise BrokerAway(f"topic {self.name} could not be read to its end within {BOUND:.0f} s")

    def _described(self) -> tuple[int, set[int]]:
        try:
            found = self._admin.list_topics(self.name, timeout=5).topics[self.name].partitions.get(0)
        except KafkaException:
            return -1, set()
        return (found.leader, set(found.isrs)) if found else (-1, set())


def alive(addresses: str) -> set[int]:
    """Return the numbers of the brokers that the cluster counts as alive."""
    return set(AdminClient({"bootstrap.servers": addresses, **QUIET}).list_topics(timeout=5).brokers)


def wait_until(true: Callable[[], bool], what: str, seconds: float = BOUND) -> None:
    """Wait until it is true. Raises BrokerAway, naming `what`, after `seconds`."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise BrokerAway(f"timed out after {seconds:.0f} s while waiting until {what}. Are the brokers up?")
        time.sleep(0.02)  # brokers do not notify of changes
