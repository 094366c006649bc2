"""The distribution of a topic and a cluster over the brokers.

The percentages are CMAK's, by its own formulas (TopicIdentity in yahoo/CMAK, app/kafka/manager/model/ActorModel.scala):
they count in-sync replicas, and brokers that have one. A topic on one broker of three has 0% skew by them, but 33%
spread.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from platform_defs.kafka.observed import Bytes, Partition


@dataclass(frozen=True)
class BrokerOfTopic:
    """One broker's part of a topic: its in-sync replicas, and the partitions that it leads."""

    broker: int
    replicas: int
    leaders: int
    skewed: bool
    leader_skewed: bool


@dataclass(frozen=True)
class TopicSkew:
    """CMAK's numbers of one topic, in whole percent."""

    topic: str
    partitions: int
    replication_factor: int
    skew_percent: int  # of the brokers with an in-sync replica: those with more than their share
    leader_skew_percent: int  # of the same brokers: those that lead more than their share
    spread_percent: int  # of all brokers: those with an in-sync replica
    preferred_percent: int  # of the partitions: those led by the first of their replicas
    brokers: tuple[BrokerOfTopic, ...]


def topic_skew(partitions: Sequence[Partition], brokers: int) -> TopicSkew:
    """Return the skew of a topic, given all its partitions (at least one) and the number of brokers in the cluster."""
    factor = len(partitions[0].replicas)
    holders = _holders(partitions, factor)
    return TopicSkew(
        partitions[0].topic,
        len(partitions),
        factor,
        skew_percent=_percent(sum(item.skewed for item in holders), len(holders), otherwise=0),
        leader_skew_percent=_percent(sum(item.leader_skewed for item in holders), len(holders), otherwise=0),
        spread_percent=_percent(len(holders), brokers, otherwise=100),
        preferred_percent=_percent(sum(item.led_by_preferred for item in partitions), len(partitions), otherwise=100),
        brokers=holders,
    )


def _holders(partitions: Sequence[Partition], factor: int) -> tuple[BrokerOfTopic, ...]:
    replicas = Counter(broker for item in partitions for broker in item.in_sync)
    leaders = Counter(item.leader for item in partitions if item.leader in item.in_sync)
    if not replicas:
        return ()
    share = math.ceil(len(partitions) / len(replicas) * factor)  # in CMAK's order: floating point rounds as there
    leader_share = math.ceil(len(partitions) / len(replicas))
    return tuple(
        BrokerOfTopic(broker, count, leaders[broker], count > share, leaders[broker] > leader_share)
        for broker, count in sorted(replicas.items())
    )


def _percent(part: int, whole: int, *, otherwise: int) -> int:
    return 100 * part // whole if whole else otherwise


@dataclass(frozen=True)
class BrokerLoad:
    """One broker's part of the whole cluster. A deviation is (count - mean) / mean, and 0 if the mean is 0;
    `bytes_deviation` is None if the sizes are not known.
    """

    broker: int
    replicas: int
    leaders: int
    bytes: int | None
    replicas_deviation: float
    leaders_deviation: float
    bytes_deviation: float | None


def cluster_load(
    partitions: Iterable[Partition], brokers: Iterable[int], sizes: Bytes | None = None
) -> tuple[BrokerLoad, ...]:
    """Return each broker's load and its deviation from the mean over all of them, in the order of their ids.

    Replicas are the assigned ones, in sync or not.
    """
    known, held = sorted(set(brokers)), list(partitions)
    replicas = Counter(broker for item in held for broker in item.replicas)
    leaders = Counter(item.leader for item in held if item.leader is not None)
    wanted, total = {(item.topic, item.number) for item in held}, Counter[int]()
    for (topic, number, broker), size in (sizes or {}).items():
        total[broker] += size if (topic, number) in wanted else 0
    return tuple(
        BrokerLoad(
            broker=broker,
            replicas=replicas[broker],
            leaders=leaders[broker],
            bytes=None if sizes is None else total[broker],
            replicas_deviation=_deviation(replicas, broker, known),
            leaders_deviation=_deviation(leaders, broker, known),
            bytes_deviation=None if sizes is None else _deviation(total, broker, known),
        )
        for broker in known
    )


def _deviation(counts: Counter[int], broker: int, brokers: Sequence[int]) -> float:
    total = sum(counts[one] for one in brokers)
    return (counts[broker] * len(brokers) - total) / total if total else 0.0  # (count - mean) / mean, rounded once
