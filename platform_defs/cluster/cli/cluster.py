"""`tidegate cluster`: health and skew of the brokers, elections, reassignments."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.output import (
    Output,
    OutputOption,
    print_answer,
    print_error,
    print_line,
    print_table,
)
from platform_defs.cluster.cli import reassign
from platform_defs.errors import BrokerAway
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.cluster.health import Health
    from platform_defs.cluster.observe import Look
    from platform_defs.cluster.partition_health import PartitionHealth
    from platform_defs.cluster.skew import BrokerLoad, TopicSkew
    from platform_defs.kafka.descriptions import KafkaPartitions
    from platform_defs.kafka.observed import Observed, Partition

app = typer.Typer(no_args_is_help=True, add_completion=False)
moves = typer.Typer(help="Move replicas: plan, apply, status, cancel.", no_args_is_help=True, add_completion=False)
moves.command("plan")(reassign.plan)
moves.command("apply")(reassign.apply)
moves.command("status")(reassign.status)
moves.command("cancel")(reassign.cancel)
app.add_typer(moves, name="reassign")

PAUSE = 2.0  # seconds between two polls
SHOWN = 10.0  # seconds in which brokers show the elected leaders
TopicArgument = typer.Argument(None, help="A topic.", show_default="all")


@app.command()
def health(
    watch: bool = typer.Option(False, "--watch", help="Poll every 2 s, and show what has changed."),
    exit_when_healthy: bool = typer.Option(False, "--exit-when-healthy", help="Wait until the cluster is healthy."),
    timeout: float = typer.Option(300.0, min=0, help="Time limit of --exit-when-healthy, in seconds."),
    output: OutputOption = Output.human,
) -> None:
    """Show whether the cluster is healthy, and how to fix it if it is not.

    The exit code is 0 if the cluster is healthy, 10 if it is not, and 1 if
    that is unknown: no broker answers, or the user lacks ACLs (Describe on the
    cluster; Describe and DescribeConfigs on topics). The command contacts each
    broker directly, so it reports a dead broker before the controller notices.
    The controller shown is the leader of the quorum.

    \b
    JSON (with --watch one such document for each change):
      cluster_id
      healthy     true, false, or null if unknown
      brokers     id, address, rack, fenced, answers
      quorum      null, or leader, epoch, voters (id, lag in records,
                  silent_ms since the last fetch, null: never)
      partitions  partitions, offline, under_min_in_sync, at_min_in_sync,
                  under_replicated, not_preferred: counts, as in Kafka's
                  metrics
      worst       up to ten: topic, partition, state, leader, replicas,
                  in_sync, min_in_sync
      findings    code, unhealthy, sentence, command (that fixes it)
      unknown     what could not be checked, and why
    """
    look = _look()
    until = time.monotonic() + timeout
    shown = None
    while True:
        seen, found = _observe_health(look, waits=watch or exit_when_healthy)
        done = not watch if not exit_when_healthy else found is not None and found.healthy
        over = exit_when_healthy and time.monotonic() > until
        if seen is not None and found is not None and (done or over or watch):
            if found != shown:
                print_answer(_health_json(seen, found), partial(_print_health, seen, found), output)
            shown = found
        if done or over:
            raise typer.Exit(1 if found is None else found.exit_code)
        time.sleep(PAUSE)


def _look() -> Look:
    from platform_defs.cluster.observe import Look
    from platform_defs.stack.endpoints import kafka_alone

    return Look(kafka_alone())


def _observe_health(look: Look, *, waits: bool) -> tuple[Observed | None, Health | None]:
    """Return the observed state and the health; None for both while no broker answers, if `waits`."""
    from platform_defs.cluster import health as cluster_health
    from platform_defs.settings.settings import settings

    try:
        seen = look.observe()
    except BrokerAway as error:
        if not waits:
            raise
        print_error(str(error))
        return None, None
    return seen, cluster_health.health(seen, embedded=settings().embeds_kafka)


def _health_json(seen: Observed, found: Health) -> dict[str, Any]:
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


def _print_health(seen: Observed, found: Health) -> None:
    """Print what is wrong, each with the command that helps, then the details."""
    word = {True: "healthy", False: "UNHEALTHY", None: "of unknown health"}[found.healthy]
    up, counts = sum(broker.answers and not broker.fenced for broker in seen.brokers), found.counts
    quorum = "quorum unknown"
    if seen.quorum is not None:
        lag = max((voter.lag for voter in seen.quorum.voters), default=0)
        quorum = f"controller {seen.quorum.leader} leads {plural(len(seen.quorum.voters), 'voter')}, lag {lag}"
    print_line(
        f"cluster {seen.cluster_id} is {word}: {up} of {plural(len(seen.brokers), 'broker')} up; "
        f"{plural(counts.partitions, 'partition')}, {counts.offline} offline, {counts.under_min_in_sync} under and "
        f"{counts.at_min_in_sync} at min.insync.replicas, {counts.under_replicated} under-replicated; {quorum}"
    )
    for item in found.findings:
        print_line(f"{'UNHEALTHY' if item.unhealthy else 'note'}: {item.sentence} → {item.command}")
    for item in found.unknown:
        print_line(f"not known: {item}")
    if found.worst:
        rows = [list(_worst_json(item).values()) for item in found.worst]
        print_table(["topic", "partition", "state", "leader", "replicas", "in sync", "min in sync"], rows)


@app.command()
def skew(topic: str | None = TopicArgument, output: OutputOption = Output.human) -> None:
    """Show how evenly replicas, leaders and bytes are spread over the brokers.

    A topic's percentages are computed as in CMAK, from in-sync replicas. B is
    the number of brokers with an in-sync replica of the topic. Skew is the
    share of these brokers with more than ceil(partitions / B * replication
    factor) replicas, leader skew the share that lead more than ceil(partitions
    / B) partitions. Spread is the share of all brokers that have the topic: a
    topic on one broker of three has 0% skew and 33% spread. Preferred is the
    share of partitions led by their first replica. A broker's deviation is
    (count - mean) / mean.

    \b
    JSON:
      cluster_id
      brokers  broker, replicas, leaders, bytes (null if unknown),
               replicas_deviation, leaders_deviation, bytes_deviation
      topics   topic, partitions, replication_factor, skew_percent,
               leader_skew_percent, spread_percent, preferred_percent,
               brokers (broker, replicas, leaders, skewed, leader_skewed)
    """
    from platform_defs.cluster.skew import cluster_load, topic_skew
    from platform_defs.kafka.observed import by_topic

    look = _look()
    seen = look.partitions.topics(None if topic is None else [topic])
    live = [broker.id for broker in seen.brokers]
    sizes, unknown = look.sizes(live)
    for why in unknown:
        print_error(f"byte counts are unavailable: {why}")
    topics = [topic_skew(held, len(live)) for held in by_topic(seen.partitions).values()]
    with_replicas = {broker for item in seen.partitions for broker in item.replicas}
    loads = cluster_load(seen.partitions, {*live, *with_replicas}, sizes)
    document = {
        "cluster_id": seen.cluster_id,
        "brokers": [asdict(load) for load in loads],
        "topics": [asdict(one) for one in topics],
    }
    print_answer(document, lambda: _print_skew(loads, topics), output)


def _print_skew(loads: Sequence[BrokerLoad], topics: Sequence[TopicSkew]) -> None:
    """Print a table of the brokers, and one of the topics."""
    brokers = [
        (
            *(one.broker, one.replicas, _deviation(one.replicas_deviation), one.leaders),
            *(_deviation(one.leaders_deviation), one.bytes, _deviation(one.bytes_deviation)),
        )
        for one in loads
    ]
    print_table(["broker", "replicas", "", "leaders", "", "bytes", ""], brokers)
    shares = [(one.skew_percent, one.leader_skew_percent, one.spread_percent, one.preferred_percent) for one in topics]
    rows = [
        (one.topic, one.partitions, one.replication_factor, *(f"{percent}%" for percent in percents))
        for one, percents in zip(topics, shares, strict=True)
    ]
    heads = ["topic", "partitions", "replicas", "skew", "leader skew", "spread", "preferred"]
    print_table(heads, rows)


def _deviation(share: float | None) -> str | None:
    return None if share is None else f"{share:+.0%}"


@app.command()
def elect(
    topic: str | None = TopicArgument,
    unclean: bool = typer.Option(
        False, "--unclean", help="Elect replicas that are not in sync: acknowledged messages can be lost."
    ),
    confirm: str | None = typer.Option(None, help="With --unclean: the topic's name again.", metavar="TOPIC"),
    output: OutputOption = Output.human,
) -> None:
    """Elect the preferred leader, the first replica, of each partition.

    With --unclean, leaderless partitions of one topic elect a replica that is
    not in sync: messages that only the failed replicas had are lost, and
    pipelines that read them halt. The exit code is 1 if an election is
    refused.

    \b
    JSON:
      before, after  partitions, preferred (led by their first
                     replica), offline
      refused        topic, partition, reason
    """
    if unclean and (topic is None or confirm != topic):
        raise typer.BadParameter(
            "--unclean can lose acknowledged messages: name one topic, and repeat its name with --confirm"
        )
    asked = _look().partitions
    before = asked.topics(None if topic is None else [topic]).partitions
    wanted = [item for item in before if item.leader is None or not (unclean or item.led_by_preferred)]
    refused = asked.elect(wanted, unclean=unclean)
    elected = [item for item in wanted if (item.topic, item.number) not in refused]
    after = _once_shown(asked, topic, elected, unclean=unclean)
    _print_election(before, after, refused, output)
    if refused:
        raise typer.Exit(1)


def _once_shown(
    asked: KafkaPartitions, topic: str | None, elected: Sequence[Partition], *, unclean: bool
) -> tuple[Partition, ...]:
    """Return the partitions, once the broker that describes them knows of every election."""
    awaited = {(item.topic, item.number) for item in elected}
    until = time.monotonic() + SHOWN
    while True:
        found = asked.topics(None if topic is None else [topic]).partitions
        ours = [item for item in found if (item.topic, item.number) in awaited]
        shown = all(item.leader is not None and (unclean or item.led_by_preferred) for item in ours)
        if shown or time.monotonic() > until:
            return found
        time.sleep(0.1)  # brokers send no notification of an election


def _print_election(
    before: Sequence[Partition],
    after: Sequence[Partition],
    refused: Mapping[tuple[str, int], str],
    output: Output,
) -> None:
    was, found = _leaders_json(before), _leaders_json(after)
    failed = [{"topic": name, "partition": n, "reason": why} for (name, n), why in sorted(refused.items())]
    lines = [
        f"{found['preferred']} of {plural(found['partitions'], 'partition')} are led by their preferred replica "
        f"(before: {was['preferred']}); {found['offline']} have no leader (before: {was['offline']}).",
        *(f"{one['topic']}[{one['partition']}]: {one['reason']}" for one in failed),
    ]
    print_answer({"before": was, "after": found, "refused": failed}, "\n".join(lines), output)


def _leaders_json(partitions: Sequence[Partition]) -> dict[str, int]:
    """Return the number of partitions, of those led by their first replica, and of those without a leader."""
    return {
        "partitions": len(partitions),
        "preferred": sum(item.led_by_preferred for item in partitions),
        "offline": sum(item.leader is None for item in partitions),
    }
