"""What the topics of the pipelines are like: there, led, in sync, and open to this user."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from platform_defs.doctor.findings import Finding, error, warning, well
from platform_defs.words import noun_for, plural

RIGHTS = {"read": "Read", "describe": "Describe", "describe_configs": "DescribeConfigs"}  # what a pipeline needs


@dataclass(frozen=True)
class TopicState:
    """A topic as Kafka describes it, by partition. `missing_rights`: of RIGHTS, those that this user lacks."""

    leaders: Mapping[int, int | None]
    replicas: Mapping[int, Sequence[int]]
    in_sync: Mapping[int, Sequence[int]]
    min_in_sync: int | None  # min.insync.replicas; None where this user may not ask
    missing_rights: Sequence[str] = ()


@dataclass(frozen=True)
class TopicTrouble:
    """Why there is no state: the topic does not exist, this user may not see it, or no answer came."""

    kind: str  # missing, no_right or no_answer
    said: str = ""


@dataclass(frozen=True)
class TopicLook:
    """A topic and the pipelines that read it."""

    topic: str
    pipelines: Sequence[str]
    outcome: TopicState | TopicTrouble = field(default=TopicTrouble("missing"))


def findings(look: TopicLook) -> list[Finding]:
    """What is to be said of one topic; where all is well, one sentence."""
    if isinstance(look.outcome, TopicTrouble):
        return [_no_state(look, look.outcome)]
    state = look.outcome
    wrong = [*_leaderless(look.topic, state), *_out_of_sync(look.topic, state), *_rights(look.topic, state)]
    partitions = plural(len(state.leaders), "partition")
    return wrong or [well("topics", look.topic, f"{look.topic}: {partitions}, all led and in sync; may be read.")]


def _no_state(look: TopicLook, trouble: TopicTrouble) -> Finding:
    of = f"the topic of {noun_for(len(look.pipelines), 'pipeline')} {', '.join(look.pipelines)}"
    if trouble.kind == "missing":
        return warning(
            "topics",
            look.topic,
            f"There is no topic {look.topic}, {of}, that this user can see.",
            f"Create it (tidegate produce {look.pipelines[0]} does), correct the contract, or grant the user "
            "Describe on it: Kafka says of a hidden topic that there is none.",
        )
    if trouble.kind == "no_right":
        return error(
            "topics",
            look.topic,
            f"This user has no right to see {look.topic}, {of} ({trouble.said}).",
            f"Grant Read, Describe and DescribeConfigs on the topic {look.topic} (kafka-acls.sh).",
        )
    return error(
        "topics",
        look.topic,
        f"Kafka gave no answer about {look.topic}, {of} ({trouble.said}).",
        "Settle the findings about the brokers' addresses first; a broker that does not answer may lead its "
        "partitions.",
    )


def _leaderless(topic: str, state: TopicState) -> Iterator[Finding]:
    without = sorted(number for number, leader in state.leaders.items() if leader is None)
    if without:
        held = sorted({replica for number in without for replica in state.replicas[number]})
        yield error(
            "topics",
            topic,
            f"{topic}: {plural(len(without), 'partition')} of {len(state.leaders)} (the first: {without[0]}) "
            f"have no leader, so nothing can be read or written there.",
            f"Start one of the brokers {_listed(held)}, which hold them. If they are gone for good, an unclean "
            "election (unclean.leader.election.enable) goes on with what is left, and loses messages.",
        )


def _out_of_sync(topic: str, state: TopicState) -> Iterator[Finding]:
    least = state.min_in_sync or 1
    led = [number for number, leader in state.leaders.items() if leader is not None]
    under = sorted(number for number in led if len(state.in_sync[number]) < least)
    behind = sorted(number for number in led if len(state.in_sync[number]) < len(state.replicas[number]))
    lagging = sorted({one for n in behind for one in state.replicas[n] if one not in state.in_sync[n]})
    never = sorted(number for number, replicas in state.replicas.items() if len(replicas) < least)
    if never:
        yield error(
            "topics",
            topic,
            f"{topic}: min.insync.replicas is {least}, and partition {never[0]} has "
            f"{plural(len(state.replicas[never[0]]), 'replica')}: every write with acks=all is refused.",
            f"Set min.insync.replicas of {topic} to its number of replicas less one, at least 1; or add replicas.",
        )
    elif under:
        yield error(
            "topics",
            topic,
            f"{topic}: {plural(len(under), 'partition')} of {len(state.leaders)} (the first: {under[0]}) have fewer "
            f"replicas in sync than min.insync.replicas ({least}): writes with acks=all are refused there.",
            f"Start or mend the brokers {_listed(lagging)}, whose replicas are behind.",
        )
    elif behind:
        yield warning(
            "topics",
            topic,
            f"{topic}: {plural(len(behind), 'partition')} of {len(state.leaders)} (the first: {behind[0]}) have "
            "replicas that are not in sync; what is written meanwhile is held by fewer brokers.",
            f"Look at the brokers {_listed(lagging)}, whose replicas are behind.",
        )


def _rights(topic: str, state: TopicState) -> Iterator[Finding]:
    if state.missing_rights:
        names = " and ".join(state.missing_rights)
        yield error(
            "topics",
            topic,
            f"{topic}: this user lacks the {noun_for(len(state.missing_rights), 'right')} {names}, without which no "
            "pipeline can read it.",
            f"Grant {names} on the topic {topic} (kafka-acls.sh --add --allow-principal ... --operation ...).",
        )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
