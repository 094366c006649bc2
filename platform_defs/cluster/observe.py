"""A cluster observed at one moment: each broker queried directly, and its controllers."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from platform_defs.errors import BrokerAway, TidegateError
from platform_defs.kafka.cluster_admin import KafkaCluster
from platform_defs.kafka.descriptions import KafkaPartitions
from platform_defs.kafka.observed import Bytes, Observed

PATIENCE = 6.0  # seconds for each request to the controllers: a lost quorum never answers


@dataclass(frozen=True)
class Look:
    """A client of the cluster at `options`, librdkafka's."""

    options: Mapping[str, str] = field(repr=False)  # they may contain a password

    @property
    def partitions(self) -> KafkaPartitions:
        return KafkaPartitions(self.options)

    @property
    def controllers(self) -> KafkaCluster:
        return KafkaCluster(self.options, PATIENCE)

    def observe(self) -> Observed:
        """Return the state of the cluster. Facts that could not be queried are in `unknown`. Raises BrokerAway if no
        broker answers.
        """
        with ThreadPoolExecutor(4) as pool:
            quorum = pool.submit(self.controllers.quorum)
            moving = pool.submit(self.controllers.reassignments)
            registered = pool.submit(self.controllers.brokers)
            topics = self.partitions.topics()
            asked = pool.submit(self.partitions.limits, list(dict.fromkeys(one.topic for one in topics.partitions)))
            unknown = list[str]()
            known = or_unknown(registered, unknown) or ()
            brokers = self.partitions.asked(known or topics.brokers)
            # The broker answered, but not the quorum's leader, to which it forwards this request.
            lost = isinstance(quorum.exception(), BrokerAway)
            limits = or_unknown(asked, unknown) or {}
            return Observed(
                topics.cluster_id,
                brokers,
                tuple(replace(one, min_in_sync=limits.get(one.topic, (0, False))[0]) for one in topics.partitions),
                quorum=None if lost else or_unknown(quorum, unknown),
                quorum_lost=f"its leader did not answer within {PATIENCE:.0f} s" if lost else None,
                moving=() if lost else or_unknown(moving, unknown) or (),
                throttled=tuple(name for name, (_, throttled) in limits.items() if throttled),
                unknown=tuple(unknown),
            )

    def sizes(self, brokers: Sequence[int]) -> tuple[Bytes | None, tuple[str, ...]]:
        """Return the bytes of every replica on these brokers; None, and the reasons, if one of them does not report
        them.
        """
        sizes, failed = dict[tuple[str, int, int], int](), list[str]()
        for broker, answer in self.controllers.replica_sizes(brokers).items():
            if isinstance(answer, TidegateError):
                failed.append(str(answer))
            else:
                sizes |= {(topic, number, broker): size for (topic, number), size in answer.items()}
        return None if failed else sizes, tuple(failed)


T = TypeVar("T")


def or_unknown(asked: Future[T], unknown: list[str]) -> T | None:
    """Return the answer; None, with the reason added to `unknown`, if there is none."""
    try:
        return asked.result()
    except TidegateError as error:
        unknown.append(str(error))
        return None
