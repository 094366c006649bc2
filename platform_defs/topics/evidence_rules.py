"""The rules that need evidence from elsewhere: what pipelines have not read yet, and the cluster of the first apply."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from platform_defs.topics.declared import Declared
from platform_defs.topics.observed import Observed, same_value, setting
from platform_defs.topics.rules import POLICY, said
from platform_defs.topics.verdicts import Verdict
from platform_defs.words import plural

AGE, SIZE, NEVER = "retention.ms", "retention.bytes", "-1"


@dataclass(frozen=True)
class Shorter:
    """A topic's retention gets shorter: to an age in milliseconds; None where that cannot be told from here."""

    milliseconds: int | None


@dataclass(frozen=True)
class Unread:
    """What a pipeline has not read of a topic yet, in messages; `expiring` of them are older than the new retention
    allows, or will be before the pipeline's next run.
    """

    pipeline: str
    messages: int
    expiring: int


@dataclass(frozen=True)
class Evidence:
    """What effects found out. `unknown` says why the ledger could not be asked; empty where it was."""

    unread: Mapping[str, Sequence[Unread]] = field(default_factory=dict[str, "Sequence[Unread]"])  # by topic
    first_cluster: str | None = None  # of the first apply; None before it
    unknown: str = ""


def shorter(declared: Declared, observed: Observed) -> Shorter | None:
    """How the topic's retention gets shorter, if it does. Keys that are not declared stay as they are."""
    there = observed.topics.get(declared.topic)
    after = {name: setting(observed, declared.topic, declared.config, name) for name in (AGE, SIZE, POLICY)}
    if there is None or "delete" not in (after[POLICY] or "delete"):
        return None
    deletes = "delete" in there.effective.get(POLICY, "delete")
    age, size = (_less(after[name], there.effective.get(name) if deletes else NEVER) for name in (AGE, SIZE))
    return Shorter(None if size else _number(after[AGE])) if age or size else None


def unread_kept(topics: Mapping[str, Declared], observed: Observed, evidence: Evidence) -> Iterator[Verdict]:
    """No retention that deletes what a pipeline has yet to read."""
    for topic, declared in topics.items():
        if (change := shorter(declared, observed)) is None or not declared.readers:
            continue
        place = (f"config.{AGE}", f"config.{SIZE}", f"config.{POLICY}")
        if evidence.unknown:
            message = (
                f"whether pipelines have read what this would delete of {topic} cannot be told: {evidence.unknown}"
            )
            yield said(declared, "refuse", "unread_kept", message, *place)
        for one in evidence.unread.get(topic, ()):
            if one.expiring:
                yield said(declared, "refuse", "unread_kept", _loss(declared, change, one), *place)


def same_cluster(observed: Observed, evidence: Evidence) -> Iterator[Verdict]:
    """The cluster is that of the first apply: another one has been taken for it."""
    first = evidence.first_cluster
    if first is not None and first != observed.cluster_id:
        message = f"topics were first applied to cluster {first}, and this is cluster {observed.cluster_id}. Correct "
        message += "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS; or, if this cluster has taken the other's place: tidegate topics "
        yield Verdict("refuse", "same_cluster", "", f"{message}apply --new-cluster {observed.cluster_id}")


def _loss(declared: Declared, change: Shorter, one: Unread) -> str:
    unread = f"{one.pipeline} has not read {plural(one.messages, 'message')} of {declared.topic}"
    if change.milliseconds is None:
        return f"{unread}, which this could delete. Let it read them first (tidegate lag {one.pipeline})"
    return (
        f"{unread}, and {AGE} {change.milliseconds} would delete {one.expiring:,} of them before it does. Let it read "
        f"them first (tidegate lag {one.pipeline})"
    )


def _less(wanted: str | None, before: str | None) -> bool:
    """Whether the limit gets lower. One that is not known may be any."""
    if same_value(wanted, before):
        return False
    limit, old = _number(wanted), _number(before)
    return limit is None or (limit >= 0 and (old is None or old < 0 or limit < old))


def _number(value: str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None
