"""Checks of each topic that never block: `topic_matches_contract`, that the topic is as its contracts declare it;
`replicas_in_sync`, that it would survive the loss of a broker now; and `groups_within_retention`, that consumer groups
read messages before these are deleted (groups/dagster_checks.py). While Kafka is unavailable, all fail.

The sensor of topics reports them with what it records; you can run them yourself too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import dagster as dg

from platform_defs.cluster.partition_health import PartitionHealth, State, count, partition_health, worst
from platform_defs.contract.model.reserved import GROUPS_WITHIN_RETENTION, REPLICAS_IN_SYNC, TOPIC_MATCHES
from platform_defs.dagster.run_session import RunSession
from platform_defs.errors import BrokerAway, TidegateError, TopicMissing
from platform_defs.errors.words import plural
from platform_defs.groups.dagster_checks import evaluation, group_checks, group_client, survey_groups
from platform_defs.kafka.observed import Observed as Cluster
from platform_defs.pipelines.reporting.halts import as_result
from platform_defs.stack.endpoints import Endpoints, connection
from platform_defs.topics.admin import TopicAdmin
from platform_defs.topics.dagster.assets import Topic
from platform_defs.topics.declared import Declared, declarations
from platform_defs.topics.observed import Observed, ObservedTopic
from platform_defs.topics.plan import plan_of
from platform_defs.topics.rules import rule_violations

OP = "check_topics"
PLAN = "`tidegate topics plan` shows what to do"
LEAST = "min.insync.replicas"


def topic_checks(topics: Sequence[Topic], names: str = "") -> dg.AssetChecksDefinition:
    """Return the checks of these topics, in one op."""
    by_name = {topic.name: topic for topic in topics}
    specs = [spec for topic in topics for spec in _specs(topic)]
    pipelines = frozenset(contract.pipeline for topic in topics for contract in topic.contracts)

    @dg.multi_asset_check(name=f"{names}{OP}", specs=specs, can_subset=True)
    def check_topics(
        context: dg.AssetCheckExecutionContext,
        tidegate_run_session: RunSession,  # noqa: ARG001  # open while the run is alive
    ) -> Iterator[dg.AssetCheckResult]:
        chosen = context.selected_asset_check_keys
        names = {key.asset_key.path[-1] for key in chosen}
        try:
            endpoints = connection()
            admin, groups = topic_admin(endpoints), group_client(endpoints)
            found = evaluations([by_name[name] for name in sorted(names)], admin)
            if any(key.name == GROUPS_WITHIN_RETENTION for key in chosen):
                views, facts = admin.views(names), admin.facts(names)
                survey, prefix = survey_groups(groups), topics[0].prefix
                found += group_checks(sorted(names), survey, views, facts, pipelines, groups, prefix)
        except TidegateError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        yield from (as_result(one) for one in found if one.asset_check_key in chosen)

    return check_topics


def _specs(topic: Topic) -> Iterator[dg.AssetCheckSpec]:
    descriptions = {
        TOPIC_MATCHES: (
            f"{topic.name} has the partitions, replicas and configuration that its contracts declare. Passes if they "
            "declare none."
        ),
        REPLICAS_IN_SYNC: (
            f"Every replica of {topic.name} is in sync. Failed: a partition has no leader, or fewer in-sync replicas "
            f"than {LEAST}, so writes are refused. Warning: replicas are out of sync."
        ),
        GROUPS_WITHIN_RETENTION: (
            f"Every consumer group of {topic.name} reads messages before they are deleted. Warning: a committed offset "
            "is below the log start, or unread messages are close to the retention time. The groups of pipelines "
            "are not checked, since a pipeline halts if messages are gone."
        ),
    }
    evaluated = {"evaluated": "with each observation of the topic"}
    for name, description in descriptions.items():
        yield dg.AssetCheckSpec(name, asset=topic.key, description=description, metadata=evaluated)


def topic_admin(endpoints: Endpoints) -> TopicAdmin:
    """Return the client of this process for these endpoints."""
    return _kept(frozenset(endpoints.kafka_options().items()))


@cache
def _kept(options: frozenset[tuple[str, str]]) -> TopicAdmin:
    return TopicAdmin(dict(options))


def evaluations(topics: Sequence[Topic], admin: TopicAdmin) -> list[dg.AssetCheckEvaluation]:
    """Return both checks of each topic that may be described, or for which no broker answers now. Raises BrokerAway if
    none answers at all.
    """
    observed, refused = admin.observe_each([topic.name for topic in topics])
    found = compare_topics([topic for topic in topics if topic.name not in refused], observed)
    for topic in topics:
        if isinstance(why := refused.get(topic.name), BrokerAway):
            found += unknown([topic], why)
    return found


def unknown(topics: Sequence[Topic], why: TidegateError) -> list[dg.AssetCheckEvaluation]:
    """Return all checks of each topic, failed: Kafka is unavailable, and its last answer may no longer be true."""
    message = f"Not known: {why}"
    return [
        evaluation(topic.key, name, message, dg.AssetCheckSeverity.ERROR, {"state": "unknown"})
        for topic in topics
        for name in (TOPIC_MATCHES, REPLICAS_IN_SYNC, GROUPS_WITHIN_RETENTION)
    ]


def compare_topics(topics: Sequence[Topic], observed: Observed) -> list[dg.AssetCheckEvaluation]:
    """Return both checks of each topic; only the first for a topic that does not exist."""
    declared = declarations([contract for topic in topics for contract in topic.contracts], (), "topics.yaml")
    contradicted = {violation.topic: violation.message for violation in declared.refused}
    found = list[dg.AssetCheckEvaluation]()
    for topic in topics:
        found.append(_matches(topic, declared.topics.get(topic.name), observed, contradicted.get(topic.name)))
        if (there := observed.topics.get(topic.name)) is not None:
            found.append(_in_sync(topic, there))
    return found


def _matches(
    topic: Topic, declared: Declared | None, observed: Observed, contradicted: str | None
) -> dg.AssetCheckEvaluation:
    differences = list[str]()
    if topic.name not in observed.topics:
        differences = [str(TopicMissing.named(topic.name))]
    elif contradicted:
        differences = [contradicted]
    elif declared:  # what the plan would change, and what no plan can
        differences = [step.sentence() for step in plan_of([declared], observed).steps]
        violations = rule_violations({declared.topic: declared}, observed)
        differences += [violation.message for violation in violations if violation.severity == "refuse"]
    message = f"{topic.name} is as declared." if declared else f"No contract declares settings for {topic.name}."
    return evaluation(
        topic.key,
        TOPIC_MATCHES,
        f"{'; '.join(differences)}. {PLAN}" if differences else message,
        None if not differences else dg.AssetCheckSeverity.WARN,
        {"differences": "; ".join(differences) or "none"},
    )


def _in_sync(topic: Topic, there: ObservedTopic) -> dg.AssetCheckEvaluation:
    least = int(there.effective.get(LEAST, "1"))
    partitions = tuple(replace(one, min_in_sync=least) for one in there.partitions)
    states = partition_health(Cluster("", (), partitions, None))
    counts, bad = count(states), worst(states)
    refused = [item for item in bad if item.state in (State.offline, State.under_min_in_sync)]
    severity = dg.AssetCheckSeverity.ERROR if refused else dg.AssetCheckSeverity.WARN if bad else None
    numbers = {
        "offline": counts.offline,
        "under_min_insync": counts.under_min_in_sync,
        "under_replicated": counts.under_replicated,
        "partitions": counts.partitions,
    }
    return evaluation(topic.key, REPLICAS_IN_SYNC, _in_words(bad, counts.partitions), severity, numbers)


def _in_words(bad: Sequence[PartitionHealth], partitions: int) -> str:
    if not bad:
        return f"{plural(partitions, 'partition')}, all replicas in sync."
    what = {
        State.offline: "has no leader: it cannot be read or written",
        State.under_min_in_sync: f"has fewer in-sync replicas than {LEAST}: writes with acks=all are refused",
    }
    first = bad[0]
    missing = f"has {plural(first.missing, 'replica')} out of sync"
    return (
        f"{first.partition} {what.get(first.state, missing)}. `tidegate cluster health` lists all of them, with "
        "remedies"
    )
