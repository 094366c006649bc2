"""A cluster's topics as a broker described them in one moment."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from platform_defs.kafka.observed import Partition, Replicas


@dataclass(frozen=True)
class ObservedTopic:
    """One topic. `overrides` are the settings set for it, `effective` all settings in effect."""

    topic_id: str
    partitions: tuple[Partition, ...]  # by number
    overrides: Mapping[str, str] = field(default_factory=dict[str, str])
    effective: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def replicas(self) -> tuple[Replicas, ...]:
        return tuple(one.replicas for one in self.partitions)

    @property
    def replication_factor(self) -> int:
        """The smallest number of replicas of any partition."""
        return min(map(len, self.replicas), default=0)


@dataclass(frozen=True)
class Observed:
    """The live brokers by id, each with its rack; the requested topics that exist; every topic's name."""

    cluster_id: str
    brokers: Mapping[int, str | None]
    topics: Mapping[str, ObservedTopic]
    names: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])  # of a broker, if its settings may be read


def setting(observed: Observed, topic: str, config: Mapping[str, str | None], name: str) -> str | None:
    """Return the value that `name` has once `config` is set; None if it is not known."""
    if config.get(name) is not None:
        return config[name]
    there = observed.topics.get(topic)
    if there is not None and name not in config:
        return there.effective.get(name)
    return observed.defaults.get(name)


def same_value(one: str | None, other: str | None) -> bool:
    """Return True if the two are one value to Kafka, which formats numbers, words and lists in its own way."""
    if one is None or other is None:
        return one is other
    return one == other or _normal(one) == _normal(other)


def _normal(value: str) -> object:
    parts = [part.strip() for part in value.split(",")]
    if len(parts) > 1:
        return parts
    for number in (int, float):  # a float as Kafka's doubles are: 0.1 and 0.10000000000000001 are one
        with suppress(ValueError):
            return number(parts[0])
    return parts[0].lower() if parts[0].lower() in ("true", "false") else parts[0]
