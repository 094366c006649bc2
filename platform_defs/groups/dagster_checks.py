"""The consumer groups that read topics: in the observation of a topic, and in a check of their offsets.

The check `groups_within_retention` never blocks. It warns of a group that lags past retention, or soon will, and so
misses messages. Groups that show the progress of a Tidegate pipeline are shown and not checked: a pipeline goes by the
ledger, and halts if unread messages are gone.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from shlex import quote
from typing import Any

import dagster as dg

from platform_defs.contract.model.reserved import GROUPS_WITHIN_RETENTION
from platform_defs.dagster.keys import topic_key
from platform_defs.errors import TidegateError
from platform_defs.errors.words import plural
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.groups import CommittedGroup, GroupProgress, incomplete, read_groups
from platform_defs.groups.own_groups import recording_pipeline, shown_pipeline
from platform_defs.kafka.group_state import Bounds, GroupPartition, Place, partitions_of
from platform_defs.kafka.topic_views import KEPT, Facts
from platform_defs.offsets import TopicView
from platform_defs.stack.endpoints import Endpoints

SHOWN = 50  # groups of a topic, in its observation
NAMED = 5  # partitions in the description of a check
NEAR = 0.8  # part of the retention time: older unread messages are soon deleted
TIMEOUT = 5.0  # seconds for each request


@dataclass(frozen=True, kw_only=True)
class GroupSurvey:
    """All groups that this user may describe; if they are unknown, the reason in `problem`.

    `bounds`: of each partition that a group reads, or the error in their place. `incomplete`: what may be missing, in
    sentences.
    """

    groups: tuple[CommittedGroup, ...] = ()
    bounds: Mapping[Place, Bounds | TidegateError] = field(default_factory=dict[Place, Bounds | TidegateError])
    incomplete: tuple[str, ...] = ()
    problem: str | None = None

    def readings(self, topic: str) -> Sequence[GroupProgress]:
        """Return the groups that have committed offsets of the topic, or whose members have partitions of it."""
        return self._by_topic.get(topic, ())

    @cached_property
    def _by_topic(self) -> Mapping[str, Sequence[GroupProgress]]:
        found = defaultdict[str, list[GroupProgress]](list)
        for one in self.groups:
            bounds = {place: self.bounds[place] for place in one.places}
            partitions = defaultdict[str, list[GroupPartition]](list)
            for item in partitions_of(one.group, one.committed, bounds):
                partitions[item.topic].append(item)
            for topic, items in partitions.items():
                found[topic].append(GroupProgress(group=one.group, partitions=tuple(items), problem=one.problem))
        return found


def group_client(endpoints: Endpoints) -> KafkaGroups:
    """Return the client of this process for these endpoints: a new one after KEPT seconds, which reads certificates and
    looks the address up again.
    """
    return _kept(frozenset(endpoints.kafka_options().items()), int(time.monotonic() / KEPT))


@lru_cache(maxsize=1)
def _kept(options: frozenset[tuple[str, str]], _: int) -> KafkaGroups:
    return KafkaGroups(dict(options), TIMEOUT)


def survey_groups(client: KafkaGroups) -> GroupSurvey:
    """Return every group, with one list request and one request per group; if Kafka is unavailable, the `problem`."""
    try:
        listing, found = read_groups(client)
        bounds = client.bounds({place for one in found for place in one.places})
    except TidegateError as error:
        return GroupSurvey(problem=str(error))
    return GroupSurvey(groups=found, bounds=bounds, incomplete=incomplete(client, listing))


def group_metadata(view: TopicView, survey: GroupSurvey, pipelines: Collection[str]) -> dict[str, Any]:
    """Return the metadata of a topic's observation: a table of the groups that read it, and what may be missing from
    it.
    """
    if survey.problem is not None:
        return {"groups": f"Not known: {survey.problem}"}
    readings = survey.readings(view.topic)
    records = [_record(one, pipelines) for one in readings[:SHOWN]]
    missing = " ".join(survey.incomplete)
    if not records:
        return {"groups": f"Not known: {missing}" if missing else "none"}
    return {
        "groups": dg.MetadataValue.table(records, schema=_SCHEMA),
        **({"groups_in_total": str(len(readings))} if len(readings) > SHOWN else {}),
        **({"groups_not_shown": missing} if missing else {}),
    }


_SCHEMA = dg.TableSchema(
    columns=[
        dg.TableColumn("group", "string"),
        dg.TableColumn("pipeline", "string", "The pipeline whose progress the group shows to Kafka tools."),
        dg.TableColumn("state", "string"),
        dg.TableColumn("members", "string"),
        dg.TableColumn("idle", "string", "Members without a partition."),
        dg.TableColumn("lag", "string", "Unread messages."),
        dg.TableColumn("past retention", "int", "Partitions with messages that were deleted before they were read."),
    ]
)


def _record(one: GroupProgress, pipelines: Collection[str]) -> dg.TableRecord:
    group, known = one.group, one.problem is None
    return dg.TableRecord(
        {
            "group": group.name,
            "pipeline": shown_pipeline(group.name, pipelines) or "",
            "state": group.state,
            "members": str(len(group.members)) if known else "not known",
            "idle": str(len(group.idle)) if known else "not known",
            "lag": "not known" if one.lag is None else str(one.lag),
            "past retention": one.expired,
        }
    )


def group_checks(
    topics: Sequence[str],
    survey: GroupSurvey,
    views: Mapping[str, TopicView | TidegateError],
    facts: Mapping[str, Facts | TidegateError],
    pipelines: Collection[str],
    client: KafkaGroups,
    prefix: Sequence[str] = (),
) -> list[dg.AssetCheckEvaluation]:
    """Return the check of each topic that could be described. Queries Kafka once, for partitions that lag.

    `prefix`: of the topics' assets.
    """
    described = [name for name in topics if isinstance(views.get(name), TopicView)]
    if survey.problem is not None:
        return [_not_known(topic_key(name, prefix), survey.problem) for name in described]
    readings = {
        name: [
            one
            for one in survey.readings(name)
            if shown_pipeline(one.group.name, pipelines) is None and recording_pipeline(one.group.name) is None
        ]
        for name in described
    }
    try:
        old = _old_until(readings, facts, client)
    except TidegateError as error:
        return [_not_known(topic_key(name, prefix), str(error)) for name in described]
    return [_check(topic_key(name, prefix), found, survey, old) for name, found in readings.items()]


def _old_until(
    readings: Mapping[str, Sequence[GroupProgress]], facts: Mapping[str, Facts | TidegateError], client: KafkaGroups
) -> dict[Place, int]:
    """Return, for each partition that a group lags in, the offset below which messages are older than NEAR of the
    topic's retention time. Topics without deletion by time have none, nor do those that Kafka does not answer for.
    """
    now, wanted, bounds = int(time.time() * 1000), dict[Place, int](), dict[Place, Bounds]()
    for topic, found in readings.items():
        config = facts.get(topic)
        if config is None or isinstance(config, TidegateError) or "delete" not in str(config["cleanup_policy"]):
            continue
        retention = int(config["retention_ms"])
        if retention <= 0 or (until := now - int(NEAR * retention)) <= 0:  # no message can be as old as that
            continue
        for item in (item for one in found for item in one.partitions if item.lag and not item.expired):
            wanted[item.place] = until
            if item.bounds is not None:
                bounds[item.place] = item.bounds
    answers = client.offsets_at(bounds, wanted)
    return {place: offset for place, offset in answers.items() if not isinstance(offset, TidegateError)}


def _check(
    topic: dg.AssetKey, readings: Sequence[GroupProgress], survey: GroupSurvey, old: Mapping[Place, int]
) -> dg.AssetCheckEvaluation:
    bad = {one.group.name: risks for one in readings if (risks := _at_risk(one.partitions, old))}
    clauses = [
        f"{name}: {'; '.join(found[:NAMED])}{f'; and {len(found) - NAMED} more' if len(found) > NAMED else ''} "
        f"(tidegate groups describe {quote(name)})"
        for name, found in bad.items()
    ]
    good = (
        f"No group lags past retention or soon will ({plural(len(readings), 'group')} checked, Tidegate's own not "
        "counted)."
    )
    none = " ".join([good, *survey.incomplete])
    message, severity = (". ".join(clauses), dg.AssetCheckSeverity.WARN) if bad else (none, None)
    return evaluation(topic, GROUPS_WITHIN_RETENTION, message, severity, {"at_risk": ", ".join(bad) or "none"})


def _at_risk(partitions: Sequence[GroupPartition], old: Mapping[Place, int]) -> list[str]:
    """Return a clause for each partition in which the group loses messages, or is about to: retention soon deletes
    messages below the offset `old`.
    """
    expired = [f"{one.topic}-{one.partition} {one.note}" for one in partitions if one.expired]
    return expired + [
        f"{one.topic}-{one.partition} has unread messages older than {NEAR:.0%} of the retention time"
        for one in partitions
        if one.lag and not one.expired and one.committed is not None and one.committed < old.get(one.place, 0)
    ]


def _not_known(topic: dg.AssetKey, why: str) -> dg.AssetCheckEvaluation:
    warn, unknown = dg.AssetCheckSeverity.WARN, {"state": "unknown"}
    return evaluation(topic, GROUPS_WITHIN_RETENTION, f"Not known: {why}", warn, unknown)


def evaluation(
    topic: dg.AssetKey,
    name: str,
    message: str,
    severity: dg.AssetCheckSeverity | None,
    metadata: Mapping[str, int | str],
) -> dg.AssetCheckEvaluation:
    """Return the evaluation of the check `name` of a topic; passed without a `severity`."""
    return dg.AssetCheckEvaluation(
        asset_key=topic,
        check_name=name,
        passed=severity is None,
        severity=severity or dg.AssetCheckSeverity.WARN,
        description=message,
        metadata=dict(metadata),
    )
