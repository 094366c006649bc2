"""`tidegate demo groups`: consumers that join and leave a group, and a second group that receives everything again.

Nothing is timed: each step waits until the consumers have reported their assignments, and have received messages.
"""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from typing_extensions import override

from platform_defs.demo.topic import DemoTopic, right_on_group
from platform_defs.errors import BrokerAway, TidegateError
from platform_defs.errors.words import plural
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right
from platform_defs.producers.message import Message
from platform_defs.producers.producer import Producer

TOPIC = "tidegate.demo.orders"
BILLING, AUDIT = "tidegate.demo.billing", "tidegate.demo.audit"
PARTITIONS = 3  # of the topic
RATE = 30  # messages a second
SHOWN = 5  # messages of each partition that are received between two rebalances
LIMIT = 60.0  # seconds for one step, which takes one or two
CLOSING = 20.0  # seconds for a client to close, which takes none if Kafka is up

Show = Callable[[str], None]


@dataclass
class Observations:
    """The reports of the demo's threads. A thread that fails reports its error, which ends the demo."""

    assigned: dict[str, Sequence[int] | None] = field(default_factory=dict[str, Sequence[int] | None])
    since: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])  # messages, by partition
    orders: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict[str, Counter[int]](Counter))  # by group
    error: TidegateError | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def assign(self, consumer: str, partitions: Sequence[int] | None) -> None:
        """Record a consumer's partitions; None: it is waiting for some."""
        with self.changed:
            self.assigned[consumer], self.since[consumer] = partitions, Counter()
            self.changed.notify_all()

    def leave(self, consumer: str) -> None:
        """Record that a consumer has left its group."""
        with self.changed:
            self.assigned.pop(consumer)
            self.changed.notify_all()

    def receive(self, group: str, consumer: str, partition: int, order: int) -> None:
        """Record that a consumer has received a message."""
        with self.changed:
            self.since[consumer][partition] += 1
            self.orders[group][order] += 1
            self.changed.notify_all()

    def fail(self, error: TidegateError) -> None:
        """Record the error of a thread that cannot continue."""
        with self.changed:
            self.error = error
            self.changed.notify_all()

    def wait_until(self, what: str, seen: Callable[[], bool]) -> list[dict[str, Any]]:
        """Wait until `seen` is true of the reports. Return the assignments of that moment: each consumer, its
        partitions, the number of messages received since they were assigned, and whether it is idle.

        Raises a thread's error, and BrokerAway after LIMIT seconds.
        """
        with self.changed:
            came = self.changed.wait_for(lambda: self.error is not None or seen(), LIMIT)
            if self.error is not None:
                raise self.error
            if not came:
                raise BrokerAway(f"timed out after {LIMIT:.0f} s while waiting until {what}. Is Kafka up?")
            return [
                {
                    "consumer": consumer,
                    "partitions": partitions or (),
                    "received": self.since[consumer].total(),
                    "idle": not partitions,
                }
                for consumer, partitions in sorted(self.assigned.items())
            ]


class Member(threading.Thread):
    """A consumer of a group, until it leaves."""

    def __init__(self, name: str, group: str, options: Mapping[str, Any], observed: Observations) -> None:
        super().__init__(name=name, daemon=True)
        self._group, self._options, self._observed = group, options, observed
        self._leaving = threading.Event()
        observed.assign(name, None)

    def leave(self) -> None:
        """Make it leave the group, so that Kafka need not wait for its session to time out."""
        self._leaving.set()

    @override
    def run(self) -> None:
        """Receive messages until `leave` is called."""
        try:
            with closing(self._consumer()) as consumer:
                consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
                while not self._leaving.is_set():
                    self._poll(consumer)
            self._observed.leave(self.name)
        except KafkaException as error:
            self._observed.fail(BrokerAway(f"Kafka: {error.args[0].str()}"))
        except TidegateError as error:
            self._observed.fail(error)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **self._options,
                "client.id": self.name,  # partitions are assigned in the order of these: the last is idle
                "group.id": self._group,
                "group.protocol": "classic",
                "partition.assignment.strategy": "range",
                "session.timeout.ms": 6_000,  # the brokers' minimum: a killed demo's members are soon removed
                "heartbeat.interval.ms": 500,  # with its next heartbeat, a member learns of a rebalance
                "auto.offset.reset": "earliest",
            }
        )

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._observed.assign(self.name, sorted(one.partition for one in partitions))

    def _revoked(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._observed.assign(self.name, None)

    def _poll(self, consumer: Consumer) -> None:
        """Receive a message, if there is one. Raises AccessDenied."""
        if (message := consumer.poll(0.1)) is None:
            return
        if (error := message.error()) is None:
            order = json.loads(message.value() or b"")["order"]
            self._observed.receive(self._group, self.name, message.partition() or 0, order)
            return
        needed = Right("topic", TOPIC, ("Read",)), right_on_group(self._group)
        if (refused := refusal(error, f"to read {TOPIC}", needed, self._options)) is not None:
            raise refused


class OrderSender(threading.Thread):
    """A sender of orders to each partition in turn, until `end` is called."""

    def __init__(self, options: Mapping[str, Any], observed: Observations) -> None:
        super().__init__(name="orders", daemon=True)
        self.sent = 0
        self._options, self._observed = options, observed
        self._ended = threading.Event()

    def end(self) -> None:
        """Make it end, and wait until all messages are acknowledged."""
        self._ended.set()
        self.join(CLOSING)

    @override
    def run(self) -> None:
        try:
            with Producer(self._options, TOPIC, client_id="tidegate.demo", ids=False) as producer:
                while not self._ended.wait(1 / RATE):
                    value = json.dumps({"order": self.sent}).encode()
                    producer.send(Message(value, partition=self.sent % PARTITIONS))
                    producer.flush()  # its error names the right that is missing
                    self.sent += 1
        except TidegateError as error:
            self._observed.fail(error)


@dataclass(frozen=True, kw_only=True)
class GroupsDemo:
    """The demo on the Kafka of `options`, librdkafka's."""

    options: Mapping[str, Any] = field(repr=False)  # they may contain a password
    show: Show
    observed: Observations = field(default_factory=Observations)

    def run(self, rebalanced: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Call `rebalanced` after each rebalance. Delete the demo's topic and groups, and return the document that
        `tidegate demo groups -o json` prints; `left`: sentences about what could not be deleted, and why.

        Raises BadInput for a topic of another program, AccessDenied, BrokerAway.
        """
        started, left, rebalances = time.monotonic(), list[str](), list[dict[str, Any]]()

        def report(group: str, event: str, consumers: Sequence[dict[str, Any]]) -> None:
            rebalances.append({"group": group, "event": event, "consumers": consumers})
            rebalanced(rebalances[-1])

        topic = DemoTopic(options=self.options, name=TOPIC, partitions=PARTITIONS, groups=(BILLING, AUDIT))
        with topic.made(self.show, left), self._sending() as orders, self._members() as members:
            for number in range(1, PARTITIONS + 2):
                name = f"billing-{number}"
                self.show(f"{name} joins the group {BILLING}")
                self._start(members, name, BILLING)
                report(BILLING, f"{name} has joined", self._rebalanced())
            leaving = members.pop(1)
            self.show(f"{leaving.name} leaves")
            leaving.leave()
            self.observed.wait_until(f"{leaving.name} left", lambda: leaving.name not in self.observed.assigned)
            report(BILLING, f"{leaving.name} has left", self._rebalanced())
            orders.end()
            self._wait_for_all(BILLING, orders.sent)
            self.show(f"audit-1 joins the group {AUDIT}")
            self._start(members, "audit-1", AUDIT)
            audited = [one for one in self._wait_for_all(AUDIT, orders.sent) if one["consumer"] == "audit-1"]
            report(AUDIT, "audit-1 has joined another group", audited)
        times = {group: self.observed.orders[group].values() for group in (BILLING, AUDIT)}
        return {
            "topic": TOPIC,
            "partitions": PARTITIONS,
            "sent": orders.sent,
            "groups": [
                {"group": group, "received": len(each), "twice": sum(number > 1 for number in each)}
                for group, each in times.items()
            ],
            "left": left,
            "seconds": round(time.monotonic() - started, 1),
            "rebalances": rebalances,
        }

    @contextmanager
    def _sending(self) -> Generator[OrderSender]:
        orders = OrderSender(self.options, self.observed)
        orders.start()
        try:
            yield orders
        finally:
            orders.end()

    @contextmanager
    def _members(self) -> Generator[list[Member]]:
        """Yield a list; members that are in it after the block leave their groups."""
        members = list[Member]()
        try:
            yield members
        finally:
            for member in members:
                member.leave()
            for member in members:
                member.join(CLOSING)

    def _start(self, members: list[Member], name: str, group: str) -> None:
        members.append(Member(name, group, self.options, self.observed))
        members[-1].start()

    def _rebalanced(self) -> Sequence[dict[str, Any]]:
        """Wait until each partition is assigned and has delivered SHOWN messages since then."""

        def delivers() -> bool:
            assigned, since = self.observed.assigned, self.observed.since
            received = [since[one][partition] for one, partitions in assigned.items() for partition in partitions or ()]
            return is_settled(assigned) and min(received) >= SHOWN

        return self.observed.wait_until(f"all partitions were assigned and delivered {SHOWN} messages", delivers)

    def _wait_for_all(self, group: str, sent: int) -> Sequence[dict[str, Any]]:
        orders, all_of_them = self.observed.orders, plural(sent, "message")
        self.show(f"waiting until {group} has received {all_of_them}")
        return self.observed.wait_until(f"{group} received {all_of_them}", lambda: len(orders[group]) == sent)


def is_settled(assigned: Mapping[str, Collection[int] | None]) -> bool:
    """Return True if each partition is assigned to one consumer. `assigned`: by consumer; None during a rebalance."""
    if any(partitions is None for partitions in assigned.values()):
        return False
    return sorted(one for partitions in assigned.values() for one in partitions or ()) == [*range(PARTITIONS)]
