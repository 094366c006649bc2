"""A sensor that records the broker's state of topics: an observation of each that has changed, and its checks."""

import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from platform_defs.dagster.keys import topic_key
from platform_defs.errors import BrokerAway, TidegateError
from platform_defs.errors.words import plural, span
from platform_defs.groups.dagster_checks import (
    GroupSurvey,
    group_checks,
    group_client,
    group_metadata,
    survey_groups,
)
from platform_defs.kafka.topic_views import Facts, KafkaTopics
from platform_defs.offsets import TopicView
from platform_defs.pipelines.reporting.events import MAX_PARTITIONS, metadata_table
from platform_defs.pipelines.reporting.halts import shows_otherwise
from platform_defs.pipelines.scheduler.survey import kept_survey
from platform_defs.stack.endpoints import Endpoints, connection
from platform_defs.topics.dagster.assets import Topic, topic_spec
from platform_defs.topics.dagster.checks import evaluations, topic_admin, unknown

OP = "observe_topics"
EVERY, EVERY_PAGE = 60, 100  # seconds between two ticks if all topics fit into one page, and if they do not
PAGE = 100  # topics in one tick: Dagster stores some 50 observations a second, and ends a tick after 60 seconds
REPEATED = 3600.0  # seconds after which a topic is recorded again though nothing in it has changed


def observe_topics(topics: Sequence[Topic], names: str = "") -> dg.SensorDefinition:
    """Return a sensor that records each topic's partitions, retention, replication and offsets, and reports its checks.
    While Kafka does not answer, its ticks fail, and so do the checks of all topics.

    A tick records one page of topics, and the cursor marks the next: up to PAGE topics are recorded once a minute, more
    of them in turn. An unchanged topic is recorded once an hour.
    """
    news, by_name = News(), {topic.name: topic for topic in topics}
    pipelines = frozenset(contract.pipeline for topic in topics for contract in topic.contracts)
    prefix = topics[0].prefix if topics else ()

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name=f"{names}topics",
        asset_selection=dg.AssetSelection.assets(*(topic.key for topic in topics)),
        minimum_interval_seconds=EVERY if len(topics) <= PAGE else EVERY_PAGE,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Records the partitions, retention, replication, end offsets and consumer groups of each topic that "
            "has changed. Checks that the topic is as declared, all replicas are in sync, and no group lags past "
            "retention."
        ),
    )
    def observe(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        page, cursor = next_page(list(by_name), context.cursor)
        try:
            endpoints = connection()
            client = group_client(endpoints)
            groups = survey_groups(client)
            found = observations(page, kept_survey(endpoints).topics, groups, pipelines, prefix)
        except TidegateError as error:  # of a tick that fails Dagster records no events, and the cursor stays
            for event in shows_otherwise(context.instance, unknown(topics, error))[: 2 * PAGE]:
                context.instance.report_runless_asset_event(event)
            raise
        for name, why in found.unseen.items():
            context.log.warning(f"{name} was not recorded: {why}")
        checks = checked([by_name[name] for name in page], endpoints, context)
        readers = group_checks(page, groups, found.views, found.facts, pipelines, client, prefix)
        checks += shows_otherwise(context.instance, readers)
        changed = news.among(found.seen, time.time())
        message = f"Observed {len(found.seen)} of {plural(len(topics), 'topic')}; recorded {len(changed)} that changed"
        message += "".join(f"; {name}: {why}" for name, why in list(found.unseen.items())[:10])
        events = [*changed, *checks]
        return dg.SensorResult(asset_events=events, skip_reason=message, cursor=cursor)

    return observe


def topic_assets(topics: Sequence[Topic], names: str = "") -> list[dg.AssetsDefinition]:
    """Return these topics as assets that Dagster shows as observed, under one op; those whose output's name is taken
    there (x.y and x_y), under another. The sensor observes them; a manual run observes them immediately.
    """
    pipelines = frozenset(contract.pipeline for topic in topics for contract in topic.contracts)
    groups = list[dict[str, Topic]]()
    for topic in topics:
        output = topic.key.to_python_identifier()
        fitting = next((group for group in groups if output not in group), None)
        if fitting is None:
            groups.append(fitting := {})
        fitting[output] = topic
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # printed by every command that loads Dagster's definitions
        return [_topic_asset(f"{names}{OP}{n or ''}", [*group.values()], pipelines) for n, group in enumerate(groups)]


def _topic_asset(name: str, topics: Sequence[Topic], pipelines: Collection[str]) -> dg.AssetsDefinition:
    """Return the op. Its run fails if a topic cannot be described; the others are recorded."""

    @dg.multi_observable_source_asset(name=name, specs=[topic_spec(topic) for topic in topics], can_subset=True)
    def observe(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        names = sorted(key.path[-1] for key in context.selected_asset_keys)
        try:
            endpoints = connection()
            groups = survey_groups(group_client(endpoints))
            found = observations(names, kept_survey(endpoints).topics, groups, pipelines, topics[0].prefix)
        except TidegateError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        for item in found.seen:
            yield dg.ObserveResult(asset_key=item.asset_key, metadata=item.metadata)
        if found.unseen:
            why = "; ".join(f"{name}: {error}" for name, error in [*found.unseen.items()][:10])
            raise dg.Failure(f"{plural(len(found.unseen), 'topic')} not recorded. {why}", allow_retries=False)

    return observe


def checked(
    topics: Sequence[Topic], endpoints: Endpoints, context: dg.SensorEvaluationContext
) -> list[dg.AssetCheckEvaluation]:
    """Return the checks of these topics that Dagster shows differently; none if Kafka refuses the request: observations
    go on.
    """
    try:
        return shows_otherwise(context.instance, evaluations(topics, topic_admin(endpoints)))
    except BrokerAway as error:
        return shows_otherwise(context.instance, unknown(topics, error))
    except TidegateError as error:
        context.log.warning(f"The topic checks could not be evaluated: {error}")
        return []


class News:
    """The records of this process for each topic, with their times: a restart forgets them, and records again."""

    def __init__(self) -> None:
        self._recorded: dict[dg.AssetKey, tuple[float, Mapping[str, Any]]] = {}

    def among(self, seen: Sequence[dg.AssetObservation], now: float) -> list[dg.AssetObservation]:
        """Return the observations that are to be recorded `now` (seconds since the epoch)."""
        found = list[dg.AssetObservation]()
        for item in seen:
            when, metadata = self._recorded.get(item.asset_key, (0.0, {}))
            if now - when > REPEATED or metadata != item.metadata:
                found.append(item)
                self._recorded[item.asset_key] = now, item.metadata
        return found


def next_page(topics: Sequence[str], cursor: str | None) -> tuple[Sequence[str], str]:
    """Return at most PAGE topics, those after the last one of the page before, and the cursor of the next page."""
    ordered = sorted(topics)
    page = [topic for topic in ordered if topic > (cursor or "")][:PAGE] or ordered[:PAGE]
    return page, "" if not page or page[-1] == ordered[-1] else page[-1]


@dataclass(frozen=True)
class Observed:
    """The observations of a page of topics, and the errors of the others."""

    seen: tuple[dg.AssetObservation, ...]
    unseen: Mapping[str, TidegateError]  # by topic
    views: Mapping[str, TopicView | TidegateError]  # by topic
    facts: Mapping[str, Facts | TidegateError]  # by topic


def observations(
    topics: Sequence[str],
    kafka: KafkaTopics,
    groups: GroupSurvey,
    pipelines: Collection[str],
    prefix: Sequence[str] = (),
) -> Observed:
    """Return the broker's state of these topics now. Raises BrokerAway if no broker answers.

    `prefix`: of the topics' assets.
    """
    views, facts = kafka.views(topics), kafka.facts(topics)
    seen: list[dg.AssetObservation] = []
    unseen: dict[str, TidegateError] = {}
    for topic in topics:
        view, message = views[topic], facts[topic]
        if isinstance(view, TidegateError):
            unseen[topic] = view
        elif isinstance(message, TidegateError):
            unseen[topic] = message
        else:
            seen.append(_observation(view, message, group_metadata(view, groups, pipelines), prefix))
    return Observed(tuple(seen), unseen, views, facts)


def _observation(
    view: TopicView, facts: Facts, groups: Mapping[str, Any], prefix: Sequence[str] = ()
) -> dg.AssetObservation:
    """Return the observation. Dagster plots every number: settings are text, and the partitions' contents are a table
    and two sums.
    """
    partitions, settings = view.partitions.values(), {name: str(value) for name, value in facts.items()}
    if retention := settings.pop("retention_ms", None):  # a time: "7 days"
        settings["retention"] = "unlimited" if retention == "-1" else span(int(retention))
    if settings.get("retention_bytes") == "-1":
        settings["retention_bytes"] = "unlimited"
    metadata = {
        "messages": sum(held.end - held.low for held in partitions),
        "end_offsets": sum(held.end for held in partitions),
        "offsets": _offsets_table(view),
        **groups,
        **settings,
        "topic_id": view.topic_id,
    }
    return dg.AssetObservation(topic_key(view.topic, prefix), metadata=metadata)


def _offsets_table(view: TopicView) -> dg.TableMetadataValue:
    """Return the offsets that each partition holds, `end` excluded. Of more than MAX_PARTITIONS: those with the most,
    and one row for all others.
    """
    most = sorted(view.partitions.items(), key=lambda item: (item[1].low - item[1].end, item[0]))
    rows = [(str(number), f"{held.low}", f"{held.end}", held.end - held.low) for number, held in most]
    shown = sorted(rows[:MAX_PARTITIONS], key=lambda row: int(row[0]))
    if others := rows[MAX_PARTITIONS:]:
        shown.append((plural(len(others), "other"), "", "", sum(row[3] for row in others)))
    return metadata_table(_OFFSETS, [dict(zip(_OFFSETS, row, strict=True)) for row in shown])


_OFFSETS = {"partition": "string", "earliest": "string", "end": "string", "offsets": "int"}
