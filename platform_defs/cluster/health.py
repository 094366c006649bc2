"""The health of a cluster, and the command that fixes each problem."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from platform_defs.cluster.partition_health import Counts, PartitionHealth, State, count, partition_health, worst
from platform_defs.errors.words import noun_for, plural
from platform_defs.kafka.observed import Broker, Observed, by_topic

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})  # Kafka's Topic.isInternal
SILENT_MS = 5000  # a voter that follows fetches every half second
WAIT = "tidegate cluster health --exit-when-healthy"


@dataclass(frozen=True)
class Finding:
    """A fact and the command that helps. Only findings that are `unhealthy` make the cluster unhealthy."""

    code: str
    unhealthy: bool
    sentence: str
    command: str


@dataclass(frozen=True)
class Health:
    """The health of a cluster. `healthy` is None if no problem was found, but not everything could be observed."""

    healthy: bool | None
    counts: Counts
    worst: tuple[PartitionHealth, ...]
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """The exit code: 0 healthy, 10 unhealthy, 1 not known."""
        return {True: 0, False: 10, None: 1}[self.healthy]


def health(observed: Observed, *, embedded: bool) -> Health:
    """Return the problems, worst first. `embedded`: the brokers belong to `tidegate stack`."""
    states = partition_health(observed)
    counts = count(states)
    findings = (
        *_of_quorum(observed, embedded=embedded),
        *_of_brokers(observed.brokers, embedded=embedded),
        *_of_partitions(observed, states, counts, embedded=embedded),
        *_of_internal_topics(observed),
        *_of_reassignments(observed),
    )
    ordered = tuple(sorted(findings, key=lambda finding: not finding.unhealthy))
    well = False if any(item.unhealthy for item in ordered) else None if observed.unknown else True
    return Health(well, counts, worst(states), ordered, observed.unknown)


def _start(brokers: Sequence[int], *, embedded: bool) -> str:
    if embedded:
        return "tidegate stack up"
    return f"start {noun_for(len(brokers), 'broker')} {_and(brokers)} (its log shows why it stopped), then {WAIT}"


def _and(numbers: Sequence[int]) -> str:
    *most, last = map(str, sorted(numbers))
    return f"{', '.join(most)} and {last}" if most else last


def _of_quorum(observed: Observed, *, embedded: bool) -> Iterator[Finding]:
    if observed.quorum_lost is not None:
        yield _lost_quorum(observed, observed.quorum_lost, embedded=embedded)
    if observed.quorum is None:
        return
    voters, leader = len(observed.quorum.voters), observed.quorum.leader
    dead = {broker.id for broker in observed.brokers if not broker.answers}
    silent = sum(voter.id in dead for voter in observed.quorum.voters)  # these are brokers too
    if observed.quorum_lost is None and silent and 2 * (voters - silent) <= voters:
        reason = f"{silent} of {voters} voters do not answer, and their leader {leader} may not have noticed yet"
        yield _lost_quorum(observed, reason, embedded=embedded)
    for voter in observed.quorum.voters:
        if voter.id == leader or (voter.silent_ms is not None and voter.silent_ms <= SILENT_MS):
            continue
        since = "since the leader was elected" if voter.silent_ms is None else f"for {voter.silent_ms / 1000:.0f} s"
        lag = plural(voter.lag, "record")
        yield Finding(
            "voter_behind",
            True,
            f"voter {voter.id} has not followed the quorum's leader {leader} {since}, {lag} behind",
            "tidegate stack up" if embedded else f"start controller {voter.id}, or check its log",
        )
    if voters % 2 == 0:
        yield Finding(
            "even_voters",
            False,
            f"{voters} voters tolerate the loss of {(voters - 1) // 2 or 'none'}; {voters - 1} would tolerate the same",
            "kafka-metadata-quorum.sh add-controller, or remove-controller, for an odd number",
        )


def _lost_quorum(observed: Observed, reason: str, *, embedded: bool) -> Finding:
    silent = [broker.id for broker in observed.brokers if not broker.answers]
    do = noun_for(len(silent), "does", "do")
    who = f" {noun_for(len(silent), 'Broker')} {_and(silent)} {do} not answer." if silent else ""
    return Finding(
        "quorum_lost",
        True,
        f"the quorum of controllers is lost ({reason}): no leader is elected, no topic changes, and a failed "
        f"broker is not replaced, until a majority of the voters is running.{who}",
        _start(silent, embedded=embedded)
        if silent
        else "start the controllers: a majority of the voters must be running",
    )


def _of_brokers(brokers: Sequence[Broker], *, embedded: bool) -> Iterator[Finding]:
    for broker in brokers:
        if not broker.answers:
            noticed = "is fenced and does" if broker.fenced else "does"
            sentence = f"broker {broker.id} ({broker.address}) {noticed} not answer"
            yield Finding("broker_silent", True, sentence, _start([broker.id], embedded=embedded))
        elif broker.fenced:
            sentence = (
                f"broker {broker.id} ({broker.address}) answers but is fenced: it leads no partition until it has "
                "caught up"
            )
            yield Finding("broker_fenced", True, sentence, WAIT)


def _of_partitions(
    observed: Observed, states: Sequence[PartitionHealth], counts: Counts, *, embedded: bool
) -> Iterator[Finding]:
    away = [broker.id for broker in observed.brokers if broker.fenced or not broker.answers]
    remedy = _start(away, embedded=embedded) if away else WAIT
    if counts.offline:
        first = next(item.partition for item in states if item.state is State.offline)
        yield Finding(
            "offline",
            True,
            f"{_of(counts.offline)} without a leader that answers, such as {first}: they cannot be read or written",
            _for_offline(states, away, remedy),
        )
    if counts.under_min_in_sync:
        refused = "with fewer in-sync replicas than min.insync.replicas: writes with acks=all are refused"
        yield Finding("under_min_in_sync", True, f"{_of(counts.under_min_in_sync)} {refused}", remedy)
    if counts.under_replicated:
        yield Finding("under_replicated", True, f"{_of(counts.under_replicated)} with replicas out of sync", remedy)
    yield from _of_minima(states, len(observed.brokers))
    if counts.not_preferred:
        sentence = f"{_of(counts.not_preferred)} not led by the preferred replica"
        yield Finding("not_preferred", False, sentence, remedy if away else "tidegate cluster elect")


def _of(partitions: int) -> str:
    return plural(partitions, "partition")


def _for_offline(states: Sequence[PartitionHealth], away: Sequence[int], remedy: str) -> str:
    """Return the remedy; with an unclean election if all in-sync replicas are down and another replica is up."""
    for item in states:
        replicas = set(item.partition.replicas) - set(away)
        if item.state is State.offline and replicas and not replicas & set(item.partition.in_sync):
            topic = item.partition.topic
            unclean = f"tidegate cluster elect {topic} --unclean --confirm {topic}"
            return (
                f"{remedy}; if that is not possible: {unclean} (messages that are only on the lost replicas are lost)"
            )
    return remedy


def _of_minima(states: Sequence[PartitionHealth], brokers: int) -> Iterator[Finding]:
    """Warn about partitions that lack no replica but cannot lose one. Topics with one replica are excluded: it is a
    choice.
    """
    at = [item.partition for item in states if item.state is State.at_min_in_sync and not item.missing]
    several = [item for item in at if len(item.replicas) > 1]
    if several:
        topic, factor = several[0].topic, len(several[0].replicas) + 1
        sentence = f"{_of(len(several))} with as many replicas as min.insync.replicas, such as {several[0]}: "
        sentence += "one broker down stops writes with acks=all"
        more = f"tidegate cluster reassign plan {topic} --replication-factor {factor}"
        command = more if factor <= brokers else f"lower min.insync.replicas of {topic} to {factor - 2}"
        yield Finding("at_min_in_sync", False, sentence, command)


def _of_internal_topics(observed: Observed) -> Iterator[Finding]:
    wanted = min(3, len(observed.brokers))
    for topic, partitions in by_topic(observed.partitions).items():
        factor = min(len(item.replicas) for item in partitions)
        if topic in INTERNAL and factor < wanted:
            yield Finding(
                "internal_topic",
                False,
                f"{topic} has {plural(factor, 'replica')} in a cluster of "
                f"{plural(len(observed.brokers), 'broker')}: Kafka's own state is lost if these replicas are",
                f"tidegate cluster reassign plan {topic} --replication-factor {wanted}",
            )


def _of_reassignments(observed: Observed) -> Iterator[Finding]:
    if observed.moving:
        sentence = f"replicas of {_of(len(observed.moving))} are being reassigned"
        yield Finding("moving", False, sentence, "tidegate cluster reassign status")
    elif observed.throttled:
        topics = f"{plural(len(observed.throttled), 'topic')}, such as {observed.throttled[0]}"
        sentence = (
            f"no replica is being moved, but replication is throttled for {topics}: a past reassignment left the "
            "throttles"
        )
        yield Finding("throttles_left", False, sentence, "tidegate cluster reassign status --adopt")
