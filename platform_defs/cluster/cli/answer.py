"""The answers of `tidegate cluster`, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from platform_defs.cli.output import print_line, print_table
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.cluster.health import Health
    from platform_defs.cluster.partition_health import PartitionHealth
    from platform_defs.cluster.skew import BrokerLoad, TopicSkew
    from platform_defs.kafka.observed import Broker, Observed, Partition


def health_json(seen: Observed, found: Health) -> dict[str, Any]:
    """Return the document described in the docstring of `tidegate cluster health`."""
    return {
        "cluster_id": seen.cluster_id,
        "healthy": found.healthy,
        "brokers": [asdict(broker) for broker in seen.brokers],
        "quorum": None if seen.quorum is None else asdict(seen.quorum),
        "partitions": asdict(found.counts),
        "worst": [_worst_json(item) for item in found.worst],
        "findings": [asdict(item) for item in found.findings],
        "unknown": list(found.unknown),
    }


def _worst_json(item: PartitionHealth) -> dict[str, Any]:
    held = item.partition
    return {
        "topic": held.topic,
        "partition": held.number,
        "state": item.state.name,
        "leader": held.leader,
        "replicas": list(held.replicas),
        "in_sync": list(held.in_sync),
        "min_in_sync": held.min_in_sync,
    }


def print_health(seen: Observed, found: Health) -> None:
    """Print what is wrong, each with the command that helps, then the details."""
    word = {True: "healthy", False: "UNHEALTHY", None: "of unknown health"}[found.healthy]
    print_line(f"cluster {seen.cluster_id} is {word}: {_brokers(seen.brokers)}; {_partitions(found)}; {_quorum(seen)}")
    for item in found.findings:
        print_line(f"{'UNHEALTHY' if item.unhealthy else 'note'}: {item.sentence} → {item.command}")
    for item in found.unknown:
        print_line(f"not known: {item}")
    if found.worst:
        rows = [list(_worst_json(item).values()) for item in found.worst]
        print_table(["topic", "partition", "state", "leader", "replicas", "in sync", "min in sync"], rows)


def _brokers(brokers: Sequence[Broker]) -> str:
    well = sum(broker.answers and not broker.fenced for broker in brokers)
    return f"{well} of {plural(len(brokers), 'broker')} up"


def _partitions(found: Health) -> str:
    counts = found.counts
    return (
        f"{plural(counts.partitions, 'partition')}, {counts.offline} offline, {counts.under_min_in_sync} under and "
        f"{counts.at_min_in_sync} at min.insync.replicas, {counts.under_replicated} under-replicated"
    )


def _quorum(seen: Observed) -> str:
    if seen.quorum is None:
        return "quorum unknown"
    voters = seen.quorum.voters
    lag = max((voter.lag for voter in voters), default=0)
    return f"controller {seen.quorum.leader} leads {plural(len(voters), 'voter')}, lag {lag}"


def skew_json(cluster_id: str, loads: Sequence[BrokerLoad], topics: Sequence[TopicSkew]) -> dict[str, Any]:
    """Return the document described in the docstring of `tidegate cluster skew`."""
    return {
        "cluster_id": cluster_id,
        "brokers": [asdict(load) for load in loads],
        "topics": [asdict(topic) for topic in topics],
    }


def print_skew(loads: Sequence[BrokerLoad], topics: Sequence[TopicSkew]) -> None:
    """Print a table of the brokers, and one of the topics."""
    print_table(["broker", "replicas", "", "leaders", "", "bytes", ""], list(map(_broker_row, loads)))
    heads = ["topic", "partitions", "replicas", "skew", "leader skew", "spread", "preferred"]
    print_table(heads, list(map(_topic_row, topics)))


def _broker_row(load: BrokerLoad) -> Sequence[Any]:
    replicas, leaders = _deviation(load.replicas_deviation), _deviation(load.leaders_deviation)
    return load.broker, load.replicas, replicas, load.leaders, leaders, load.bytes, _deviation(load.bytes_deviation)


def _topic_row(topic: TopicSkew) -> Sequence[Any]:
    percents = (topic.skew_percent, topic.leader_skew_percent, topic.spread_percent, topic.preferred_percent)
    return topic.topic, topic.partitions, topic.replication_factor, *(f"{percent}%" for percent in percents)


def _deviation(share: float | None) -> str | None:
    return None if share is None else f"{share:+.0%}"


def leaders_json(partitions: Sequence[Partition]) -> dict[str, int]:
    """Return the number of partitions, of those led by their first replica, and of those without a leader."""
    return {
        "partitions": len(partitions),
        "preferred": sum(item.led_by_preferred for item in partitions),
        "offline": sum(item.leader is None for item in partitions),
    }
