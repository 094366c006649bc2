"""One look at a cluster: what its brokers, each asked itself, and its controllers say at the same time."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from platform_defs.cluster.observed import Bytes, Observed, Quorum
from platform_defs.errors import BrokerAway, TidegateError
from resources.kafka.admin.cluster import KafkaCluster
from resources.kafka.admin.partitions import KafkaPartitions

PATIENCE = 6.0  # seconds for each question to the controllers: a quorum that is lost never answers


@dataclass(frozen=True)
class Look:
    """Asks the cluster at `options`, librdkafka's."""

    options: Mapping[str, str] = field(repr=False)  # they may hold a password

    @property
    def partitions(self) -> KafkaPartitions:
        return KafkaPartitions(self.options)

    @property
    def controllers(self) -> KafkaCluster:
        return KafkaCluster(self.options, PATIENCE)

    def observe(self) -> Observed:
        """The whole cluster. What could not be asked is in `unknown`; BrokerAway where no broker answers at all."""
        with ThreadPoolExecutor(4) as pool:
            quorum = pool.submit(self.controllers.quorum)
            moving = pool.submit(self.controllers.reassignments)
            registered = pool.submit(self.controllers.brokers)
            topics = self.partitions.topics()
            asked = pool.submit(self.partitions.limits, topics.names)
            unknown = list[str]()
            known = _or_unknown(registered, unknown) or ()
            brokers = self.partitions.asked(known or topics.brokers)
            lost, limits = _lost(quorum), _or_unknown(asked, unknown) or {}
            return Observed(
                topics.cluster_id,
                brokers,
                tuple(replace(one, min_in_sync=limits.get(one.topic, (0, False))[0]) for one in topics.partitions),
                quorum=None if lost else _or_unknown(quorum, unknown),
                quorum_lost=lost,
                moving=() if lost else _or_unknown(moving, unknown) or (),
                throttled=tuple(name for name, (_, throttled) in limits.items() if throttled),
                unknown=tuple(unknown),
            )

    def sizes(self, brokers: Sequence[int]) -> tuple[Bytes | None, tuple[str, ...]]:
        """The bytes of every replica on these brokers; None, and why, where one of them does not say."""
        found = self.controllers.log_dirs(brokers)
        failed = tuple(str(answer) for answer in found.values() if isinstance(answer, TidegateError))
        if failed:
            return None, failed
        folders = [folder for answer in found.values() if not isinstance(answer, TidegateError) for folder in answer]
        sizes: dict[tuple[str, int, int], int] = {}
        for folder in folders:
            for item in folder.replicas:
                if not item.moves_here:
                    sizes[item.topic, item.partition, folder.broker] = item.size
        return sizes, ()


T = TypeVar("T")


def _or_unknown(asked: Future[T], unknown: list[str]) -> T | None:
    try:
        return asked.result()
    except TidegateError as error:
        unknown.append(str(error))
        return None


def _lost(asked: Future[Quorum]) -> str | None:
    """Why the quorum has no leader, as far as can be told: a broker answers, and what it forwards is not answered."""
    try:
        asked.result()
    except BrokerAway:
        return f"its leader did not answer within {PATIENCE:.0f} s"
    except TidegateError:
        return None
    return None
