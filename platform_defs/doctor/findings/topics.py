"""Findings about the topics of the pipelines: there, led, in sync, and open to this user."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from platform_defs.doctor.findings.finding import Finding, Severity, Subject
from platform_defs.errors.words import noun_for, plural

MOST = 10  # topics that are well and have a line each
RIGHTS = {"read": "Read", "describe": "Describe", "describe_configs": "DescribeConfigs"}  # what a pipeline needs


@dataclass(frozen=True)
class TopicState:
    """A topic as Kafka describes it, by partition. `missing_rights`: the RIGHTS that this user lacks."""

    leaders: Mapping[int, int | None]
    replicas: Mapping[int, Sequence[int]]
    in_sync: Mapping[int, Sequence[int]]
    min_in_sync: int | None  # min.insync.replicas; None if this user may not ask
    missing_rights: Sequence[str] = ()


@dataclass(frozen=True)
class TopicTrouble:
    """The reason why there is no state: the topic does not exist, this user may not see it, or no answer came."""

    kind: Literal["missing", "no_right", "no_answer"]
    error: str = ""


@dataclass(frozen=True)
class TopicLook:
    """A topic and the pipelines that read it."""

    topic: str
    pipelines: Sequence[str]
    outcome: TopicState | TopicTrouble = field(default=TopicTrouble("missing"))


def findings(looks: Sequence[TopicLook]) -> list[Finding]:
    """Return the findings about all topics. Many topics that are well have one sentence in all."""
    found = [finding for look in looks for finding in of_topic(look)]
    fine = [finding for finding in found if finding.severity is Severity.OK]
    if len(fine) <= MOST:
        return found
    together = Subject("topics", "topics").well(
        f"{plural(len(fine), 'topic')} can be read: every partition has a leader and all replicas in sync."
    )
    return [together, *(finding for finding in found if finding.severity is not Severity.OK)]


def of_topic(look: TopicLook) -> list[Finding]:
    """Return the findings about one topic; one sentence if all is well."""
    if isinstance(look.outcome, TopicTrouble):
        return [_no_state(look, look.outcome)]
    state = look.outcome
    rules = (_leaderless, _out_of_sync, _too_few, _rights)
    wrong = [finding for rule in rules for finding in rule(look.topic, state)]
    partitions = plural(len(state.leaders), "partition")
    return wrong or [
        Subject("topics", look.topic).well(f"{look.topic}: {partitions}, all with a leader and in sync; can be read.")
    ]


def _no_state(look: TopicLook, trouble: TopicTrouble) -> Finding:
    of = f"the topic of {noun_for(len(look.pipelines), 'pipeline')} {', '.join(look.pipelines)}"
    if trouble.kind == "missing":
        return Subject("topics", look.topic).warning(
            f"There is no topic {look.topic}, {of}, that this user can see.",
            "Create it (tidegate topics apply), correct the contract, or "
            "grant the user Describe on it: Kafka reports topics that you may not Describe as missing.",
        )
    if trouble.kind == "no_right":
        return Subject("topics", look.topic).error(
            f"This user has no right to see {look.topic}, {of} ({trouble.error}).",
            f"Grant Read, Describe and DescribeConfigs on the topic {look.topic} (kafka-acls.sh).",
        )
    return Subject("topics", look.topic).error(
        f"Kafka did not answer the request to describe {look.topic}, {of} ({trouble.error}).",
        "Fix the findings about the brokers' addresses first: a broker that does not answer may lead its partitions.",
    )


def _leaderless(topic: str, state: TopicState) -> Iterator[Finding]:
    without = sorted(number for number, leader in state.leaders.items() if leader is None)
    if without:
        held = sorted({replica for number in without for replica in state.replicas[number]})
        yield Subject("topics", topic).error(
            f"{topic}: {_share(without, state)} no leader, so nothing can be read or written there.",
            f"Start one of the brokers {_listed(held)}, which hold {noun_for(len(without), 'it', 'them')}. If they "
            "are gone permanently, an unclean election (unclean.leader.election.enable) continues with the remaining "
            "replicas, and loses messages.",
        )


def _out_of_sync(topic: str, state: TopicState) -> Iterator[Finding]:
    least = state.min_in_sync or 1
    led = [number for number, leader in state.leaders.items() if leader is not None]
    under = sorted(n for n in led if len(state.in_sync[n]) < min(least, len(state.replicas[n])))
    behind = sorted(n for n in led if len(state.in_sync[n]) < len(state.replicas[n]))
    lagging = sorted({one for n in behind for one in state.replicas[n] if one not in state.in_sync[n]})
    if under:
        yield Subject("topics", topic).error(
            f"{topic}: {_share(under, state)} fewer in-sync replicas than min.insync.replicas ({least}): writes "
            "with acks=all are refused there.",
            f"Start the brokers {_listed(lagging)}, whose replicas are behind, or check their logs for the reason.",
        )
    elif behind:
        yield Subject("topics", topic).warning(
            f"{topic}: {_share(behind, state)} replicas that are not in sync; until they catch up, new messages "
            "are on fewer brokers.",
            f"Check the brokers {_listed(lagging)}, whose replicas are behind.",
        )


def _too_few(topic: str, state: TopicState) -> Iterator[Finding]:
    """Yield a finding for too few replicas. Kafka 4.3 was seen to take writes with acks=all even then, as if the
    setting were the number of replicas.
    """
    least = state.min_in_sync or 1
    short = sorted(number for number, replicas in state.replicas.items() if len(replicas) < least)
    if short:
        replicas = plural(len(state.replicas[short[0]]), "replica")
        yield Subject("topics", topic).warning(
            f"{topic}: min.insync.replicas is {least}, and {_share(short, state)} {replicas}: a write reaches "
            "fewer brokers than that setting promises.",
            f"Add replicas; or lower min.insync.replicas of {topic} to the number of its replicas.",
        )


def _share(numbers: Sequence[int], state: TopicState) -> str:
    """Format a share: "2 partitions of 12 (the first: 3) have"."""
    of = f"{plural(len(numbers), 'partition')} of {len(state.leaders)}"
    return f"{of} (the first: {numbers[0]}) {noun_for(len(numbers), 'has', 'have')}"


def _rights(topic: str, state: TopicState) -> Iterator[Finding]:
    if state.missing_rights:
        names = " and ".join(state.missing_rights)
        yield Subject("topics", topic).error(
            f"{topic}: this user lacks the {noun_for(len(state.missing_rights), 'right')} {names}, without which no "
            "pipeline can read it.",
            f"Grant {names} on the topic {topic} (kafka-acls.sh --add --allow-principal ... --operation ...).",
        )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
