"""The plan of a reassignment, from a cluster's state."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from platform_defs.cluster.health import INTERNAL
from platform_defs.cluster.moves import Site, led_evenly, rearranged
from platform_defs.cluster.observe import Look
from platform_defs.cluster.reassignment import Reassignment, TopicPlan
from platform_defs.errors import BadInput, TopicMissing
from platform_defs.errors.words import plural
from platform_defs.kafka.observed import Bytes, Observed, Replicas, by_topic


@dataclass(frozen=True)
class Wanted:
    """The request for a plan: topics (none: all but Kafka's own), another number of replicas (None: keep it), brokers
    to leave, or only other leaders.
    """

    topics: Sequence[str] = ()
    replication_factor: int | None = None
    without: Collection[int] = ()
    leaders_only: bool = False


def plan(look: Look, wanted: Wanted) -> Reassignment:
    """Return the plan. Raises BadInput if it cannot be made now: a broker is unavailable, replicas are moving, too few
    brokers.
    """
    seen = look.observe()
    chosen = _chosen(seen, wanted)
    held = {name: items for name, items in by_topic(seen.partitions).items() if name in chosen}
    racks = _racks(seen, wanted, max((len(item.replicas) for items in held.values() for item in items), default=1))
    ids = look.partitions.topic_ids(list(held))
    sizes, _ = look.sizes([broker.id for broker in seen.brokers if broker.answers])
    load = Counter(broker for item in seen.partitions for broker in item.replicas)
    plans: list[TopicPlan] = []
    for name, items in held.items():
        observed = {item.number: item.replicas for item in items}
        load.subtract(broker for replicas in observed.values() for broker in replicas)
        site = Site(racks, load)
        planned = led_evenly(observed) if wanted.leaders_only else rearranged(observed, site, wanted.replication_factor)
        load.update(broker for replicas in planned.values() for broker in replicas)
        plans += _changed(name, ids.get(name, ""), observed, planned, sizes)
    return Reassignment(seen.cluster_id, tuple(plans))


def _chosen(seen: Observed, wanted: Wanted) -> set[str]:
    every = {item.topic for item in seen.partitions}
    if missing := [name for name in wanted.topics if name not in every]:
        raise TopicMissing.named(missing[0])
    chosen = set(wanted.topics) or every - INTERNAL
    if moving := [item for item in seen.moving if item.topic in chosen]:
        raise BadInput(
            f"replicas of {moving[0]} are already being reassigned. Wait until that ends (tidegate cluster "
            "reassign status), or cancel it (tidegate cluster reassign cancel)"
        )
    return chosen


def _racks(seen: Observed, wanted: Wanted, replicas: int) -> dict[int, str | None]:
    """Return the brokers that may have replicas, with their racks. `replicas`: the most that a partition has now."""
    if seen.unknown:
        raise BadInput(f"a plan needs to see the whole cluster: {seen.unknown[0]}")
    site = [broker for broker in seen.brokers if broker.id not in wanted.without]
    if away := [broker for broker in site if broker.fenced or not broker.answers]:
        raise BadInput(
            f"broker {away[0].id} ({away[0].address}) does not answer, and the plan needs it. Start the broker, or "
            f"plan without it: --without {away[0].id}"
        )
    if len(site) < (needed := wanted.replication_factor or replicas):
        raise BadInput(f"{plural(needed, 'replica')} cannot be placed: {plural(len(site), 'broker')} available")
    return {broker.id: broker.rack for broker in site}


def _changed(
    topic: str, topic_id: str, observed: dict[int, Replicas], planned: dict[int, Replicas], sizes: Bytes | None
) -> list[TopicPlan]:
    """Return the topic's plan, with the partitions that change; empty if none does."""
    was = {number: observed[number] for number in planned if planned[number] != observed[number]}
    if not was:
        return []
    size = None
    if sizes is not None:  # for each replica that moves, the size of the partition's largest
        size = sum(
            len(set(planned[n]) - set(before)) * max(sizes.get((topic, n, broker), 0) for broker in before)
            for n, before in was.items()
        )
    return [TopicPlan(topic, topic_id, was, {number: planned[number] for number in was}, size)]
