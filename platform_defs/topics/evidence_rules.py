"""The rules that need evidence from elsewhere: messages that pipelines have read or not, and the cluster of the first
apply.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from platform_defs.errors.words import plural
from platform_defs.topics.declared import Declared
from platform_defs.topics.observed import Observed, same_value, setting
from platform_defs.topics.plan import Plan
from platform_defs.topics.rules import DELAY, POLICY, TOMBSTONES, said, tombstones_kept
from platform_defs.topics.violations import Violation

AGE, SIZE, NEVER = "retention.ms", "retention.bytes", "-1"


@dataclass(frozen=True)
class Shorter:
    """A shorter retention of a topic, in milliseconds; None if it cannot be determined here.

    `lost_to` "upsert": tombstones are lost, since compaction removes them. "append": messages with a newer one of the
    same key are lost, in a topic that becomes compacted. None: any message can be lost, for any reader.
    """

    milliseconds: int | None
    lost_to: Literal["append", "upsert"] | None = None


@dataclass(frozen=True)
class Unread:
    """A pipeline's lag on a topic, in messages; `expiring` of them are older than the `change` allows, or will be
    before the pipeline's next run. `retired`: for a pipeline without a contract that reads the topic, the token that
    confirms that the pipeline will not read it any more; a run of the pipeline changes the token.
    """

    pipeline: str
    messages: int
    expiring: int
    change: Shorter = Shorter(None)
    retired: str = ""


@dataclass(frozen=True)
class ReadBefore:
    """A pipeline that has read a topic of this name, by the ledger."""

    pipeline: str
    topic_id: str
    cluster_id: str


@dataclass(frozen=True)
class Evidence:
    """The evidence for these rules. `unknown`: why the ledger could not be queried; empty if it was."""

    unread: Mapping[str, Sequence[Unread]] = field(default_factory=dict[str, "Sequence[Unread]"])  # by topic
    first_cluster: str | None = None  # in the ledger: of the first apply, or that pipelines read; None: none
    unknown: str = ""
    # By topic that is missing.
    read_before: Mapping[str, Sequence[ReadBefore]] = field(default_factory=dict[str, "Sequence[ReadBefore]"])


def shorter(declared: Declared, observed: Observed) -> list[Shorter]:
    """Return the ways in which the topic would keep less than before. Keys that are not declared do not change."""
    there = observed.topics.get(declared.topic)
    if there is None:
        return []
    names, found = (AGE, SIZE, POLICY, TOMBSTONES, DELAY), list[Shorter]()
    after = {name: setting(observed, declared.topic, declared.config, name) for name in names}
    before = {name: there.effective.get(name) for name in names}
    if "delete" in (after[POLICY] or "delete"):
        deletes = "delete" in (before[POLICY] or "delete")
        age, size = (_less(after[name], before[name] if deletes else NEVER) for name in (AGE, SIZE))
        found += [Shorter(None if size else _number(after[AGE]))] if age or size else []
    kept, was = tombstones_kept(after), tombstones_kept(before)
    if kept != NEVER and _less(kept, was):
        found.append(Shorter(_number(kept), "upsert"))
    if kept != NEVER and was == NEVER:
        found.append(Shorter(None, "append"))
    return found


def unread_kept(
    topics: Mapping[str, Declared], observed: Observed, evidence: Evidence, retired: Collection[str] = ()
) -> Iterator[Violation]:
    """Refuse a retention that deletes unread messages of a pipeline; warn if a user confirmed that it is `retired`."""
    for topic, declared in topics.items():
        if not (changes := shorter(declared, observed)):
            continue
        keys = (AGE, SIZE, POLICY) if any(one.lost_to is None for one in changes) else (TOMBSTONES, DELAY, POLICY)
        place = [f"config.{key}" for key in keys]
        if evidence.unknown:
            message = (
                f"cannot tell whether pipelines have read the messages of {topic} that this would delete: "
                f"{evidence.unknown}"
            )
            yield said(declared, "refuse", "unread_kept", message, *place)
        for one in evidence.unread.get(topic, ()):
            if one.expiring:
                severity = "warn" if one.retired in retired else "refuse"
                yield said(declared, severity, "unread_kept", _loss(declared, one), *place)


def read_before(topics: Mapping[str, Declared], observed: Observed, evidence: Evidence) -> Iterator[Violation]:
    """Refuse to create a topic in place of one that a pipeline has read: the pipeline would halt at the new log. The
    topic that was read may be in another cluster.
    """
    for topic, readers in evidence.read_before.items():
        one = readers[0]
        yield said(
            topics[topic],
            "refuse",
            "read_before",
            f"{one.pipeline} has read {topic} (topic id {one.topic_id} in cluster {one.cluster_id}), but this "
            f"cluster, {observed.cluster_id}, has no such topic. If these are the wrong brokers, correct "
            "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS. If the topic was deleted: tidegate topics apply --recreate; then "
            f"{one.pipeline} halts until you resolve it (tidegate resolve {one.pipeline})",
        )


def same_cluster(observed: Observed, evidence: Evidence) -> Iterator[Violation]:
    """Refuse a cluster other than the ledger's."""
    first = evidence.first_cluster
    if first is not None and first != observed.cluster_id:
        message = (
            f"the ledger's topics are in cluster {first}, but this is cluster {observed.cluster_id}. Correct "
            "TIDEGATE_KAFKA_BOOTSTRAP_SERVERS; or, if this cluster replaces the other one: tidegate topics apply "
            f"--new-cluster {observed.cluster_id}"
        )
        yield Violation("refuse", "same_cluster", "", message)


def cluster_known(plan: Plan, evidence: Evidence) -> Iterator[Violation]:
    """Refuse changes if no ledger shows that this is the intended cluster; with a ledger that has no cluster yet, new
    topics may be created.
    """
    changes = plan.steps if evidence.unknown else any(plan.topics.values())
    if not changes or evidence.first_cluster is not None:
        return
    why = evidence.unknown or "the ledger has not recorded a cluster yet, and the plan changes existing topics"
    yield Violation(
        "refuse",
        "cluster_known",
        "",
        f"no ledger confirms that {plan.cluster_id} is the intended cluster: {why}. Make the ledger available "
        "(tidegate stack up, or TIDEGATE_POSTGRES_URL). If you have checked that it is the intended cluster: "
        f"--cluster-id {plan.cluster_id}",
    )


def _loss(declared: Declared, one: Unread) -> str:
    if one.change.lost_to == "upsert":
        loss = (
            f", and tombstones among {one.expiring:,} of them could be removed before it reads them "
            f"({TOMBSTONES} after {DELAY}): the rows that they delete would remain forever"
        )
    elif one.change.milliseconds is None:
        loss = ", which this could delete"
    else:
        loss = f", and {AGE} {one.change.milliseconds} would delete {one.expiring:,} of them before it does"
    remedy = f"Let it read them first (tidegate lag {one.pipeline})"
    if one.retired:
        remedy = (
            f"No readable contract here names {declared.topic} for this pipeline: restore the contract and let it "
            f"read them first; or, if the pipeline will not read the topic again: --retired {one.retired}"
        )
    return f"{one.pipeline} has not read {plural(one.messages, 'message')} of {declared.topic}{loss}. {remedy}"


def _less(wanted: str | None, before: str | None) -> bool:
    """Return True if the limit gets lower, or may get lower because it is not known."""
    if same_value(wanted, before):
        return False
    limit, old = _number(wanted), _number(before)
    return limit is None or (limit >= 0 and (old is None or old < 0 or limit < old))


def _number(value: str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None
