"""The recipes of faults: each causes a fault on three real brokers during a stream, and detects if it happened."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Producer

from bench.producers.journal import DELIVERED, FAILED
from bench.producers.proxy import Fault, Link
from bench.producers.sending import OTHER, QUIET, Stream
from bench.producers.three_brokers import NUMBERS, ThreeBrokers
from bench.producers.topic import Topic, wait_until
from bench.producers.zombie import Zombie

FLOWING = 200  # messages delivered before the fault begins, and after it is over
MEANWHILE = 500  # messages sent to a leader that is alone
AWAY_SECONDS = 3.0  # until a killed broker is started again
FROZEN_SECONDS = 1.0  # of a broker's session, which lasts 4 s
HELD_SECONDS = 1.0  # until a connection without answers is reset
FLAPS, FLAP_SECONDS = 10, 0.1
DISTANCE_SECONDS = 0.02  # each way
BEATS = 10  # messages of others per setting


@dataclass(frozen=True)
class Field:
    """The environment of a fault."""

    brokers: ThreeBrokers
    topic: Topic
    stream: Stream
    zombie: Zombie | None = None  # only for the fault `zombie`

    def wait_for(self, more: int, what: int = DELIVERED) -> None:
        """Wait until `more` messages than now were reported as `what`."""
        count, journal = self.stream.journal.count, self.stream.journal
        aim = count[what] + more
        wait_until(lambda: journal.count[what] >= aim or not self.stream.is_alive(), f"{more} messages were reported")


def none(_: Field) -> bool:
    """Nothing is done."""
    return True


def broker_kill(field: Field) -> bool:
    """The leader is killed (SIGKILL) and started again after 3 s."""
    leader = field.topic.leader
    field.brokers.kill(leader)
    time.sleep(AWAY_SECONDS)
    return _taken_over(field, leader)


def leader_loss(field: Field) -> bool:
    """Both followers are frozen, the leader is killed (SIGKILL), and the followers go on: a clean election."""
    leader = field.topic.leader
    followers = [number for number in NUMBERS if number != leader]
    field.brokers.freeze(*followers)
    time.sleep(FROZEN_SECONDS)
    field.brokers.kill(leader)
    field.brokers.thaw(*followers)
    return _taken_over(field, leader)


def unclean(field: Field) -> bool:
    """The follower is killed; the leader, alone in sync, writes on and is killed; the follower is elected."""
    leader = field.topic.leader
    (follower,) = field.topic.in_sync - {leader}
    field.brokers.kill(follower)
    wait_until(lambda: field.topic.in_sync == {leader}, f"broker {leader} alone is in sync")
    field.wait_for(MEANWHILE)
    field.brokers.kill(leader)
    field.brokers.start(follower)
    wait_until(lambda: _elected(field.topic, follower), f"broker {follower} leads")
    field.brokers.start(leader)
    field.topic.wait_until_whole()
    return field.topic.leader == follower


def cut_answers(field: Field) -> bool:
    """Requests pass, answers do not, and after 1 s the connections are reset."""
    held, holding = set[Link](), True

    def swallow(link: Link, _data: bytes, sent: bool) -> Fault | None:
        if holding:
            held.add(link)
        return "swallowed" if link in held and not sent else None

    for proxy in field.brokers.proxies:
        proxy.rule = swallow
    time.sleep(HELD_SECONDS)
    holding = False
    for link in held.copy():
        link.reset()
    return bool(held)


def isr_flap(field: Field) -> bool:
    """The brokers are 20 ms away; with two of three in sync, min.insync.replicas goes to 3 and back every 100 ms.

    A value above the number of replicas would do nothing: the leader takes the lesser of the two. Others write to the
    topic meanwhile: otherwise a leader checks pending requests again only after the client's 30 s. Without the distance
    a batch is refused and the next one accepted only if the change falls between two requests within a millisecond.
    """
    refused = set[int]()

    def note(error: KafkaError | None, _: object) -> None:
        refused.update([error.code()] if error else [])

    asking = Producer({"bootstrap.servers": field.brokers.addresses, "retries": 0, "linger.ms": 0, **QUIET})
    others = Producer({"bootstrap.servers": field.brokers.addresses, "acks": 1, "linger.ms": 0, **QUIET})
    with _far_away(field.brokers):
        for in_sync in ("3", "2") * FLAPS:
            field.topic.configure("min.insync.replicas", in_sync)
            asking.produce(field.topic.name, OTHER, on_delivery=note)
            for _ in range(BEATS):
                others.produce(field.topic.name, OTHER)
                others.poll(FLAP_SECONDS / BEATS)
    others.flush()
    asking.flush()
    return KafkaError.NOT_ENOUGH_REPLICAS in refused


def away(field: Field) -> bool:
    """All brokers are killed until messages time out (message.timeout.ms is 3 s here), and started again."""
    field.brokers.kill(*NUMBERS)
    field.wait_for(1, FAILED)
    field.brokers.start(*NUMBERS)
    field.topic.wait_until_whole()
    return field.stream.journal.count[FAILED] > 0


def zombie(field: Field) -> bool:
    """A producer is frozen (SIGSTOP) inside a transaction, its successor takes over, and it goes on (SIGCONT)."""
    return field.zombie is not None and field.zombie.wake()


@contextmanager
def _far_away(brokers: ThreeBrokers) -> Generator[None]:
    for proxy in brokers.proxies:
        proxy.latency = DISTANCE_SECONDS
    try:
        yield
    finally:
        for proxy in brokers.proxies:
            proxy.latency = 0.0


def _taken_over(field: Field, leader: int) -> bool:
    """Wait until another broker leads, and start the killed one again. Return True if another one still leads."""
    wait_until(lambda: field.topic.leader not in (-1, leader), f"a broker other than {leader} leads")
    field.brokers.start(leader)
    field.topic.wait_until_whole()
    return field.topic.leader != leader


def _elected(topic: Topic, wanted: int) -> bool:
    try:
        topic.elect_unclean()
    except KafkaException:
        time.sleep(0.2)  # the quorum has no leader yet, or the broker is not registered yet
    return topic.leader == wanted
