"""Topics as external assets: Dagster does not materialize them, it shows what the broker says about them."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from platform_defs.contract.message_path import MessagePath, spell_path
from platform_defs.contract.model import Contract, Field
from platform_defs.errors import TopicMissing
from platform_defs.orchestration.keys import PIPELINE_TAG, topic_key
from resources.endpoints import connection
from resources.kafka.broker import KafkaBroker, topic_facts

EVERY = 60  # seconds between two observations of a topic
PATIENCE = 5.0  # seconds; a sensor must not block the daemon


@dataclass(frozen=True)
class Topic:
    """A topic, and the contracts of the pipelines that read it: at least one."""

    name: str
    contracts: tuple[Contract, ...]


def by_topic(contracts: Sequence[Contract]) -> list[Topic]:
    """The topics that these contracts read, each once."""
    names = dict.fromkeys(contract.topic for contract in contracts)
    return [Topic(name, tuple(item for item in contracts if item.topic == name)) for name in names]


def topic_asset(topic: Topic) -> dg.AssetSpec:
    """The topic, with the message that its contracts say it carries. Its group is the domain of the first contract."""
    readers = " and ".join(f"{item.pipeline} {item.version}" for item in topic.contracts)
    return dg.AssetSpec(
        topic_key(topic.name),
        description=f"The topic {topic.name}, as read by {readers}.",
        group_name=topic.contracts[0].domain,
        kinds={"kafka"},
        tags={PIPELINE_TAG: topic.contracts[0].pipeline} if len(topic.contracts) == 1 else {},  # a tag has one value
        metadata={
            "dagster/column_schema": dg.TableSchema(columns=_columns(topic.contracts)),
            "format": ", ".join(dict.fromkeys(item.format for item in topic.contracts)),
            "pipelines": ", ".join(item.pipeline for item in topic.contracts),
        },
    )


def observe_topics(topics: Sequence[str]) -> dg.SensorDefinition:
    """A sensor that records each topic's partitions, retention, replication and offsets, once a minute."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # of Dagster: a bare PathLike
        name="topics",
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Records each topic's partitions, retention, replication and end offsets, as the broker has them.",
    )
    def observe(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        options = connection().kafka_options()
        seen: list[dg.AssetObservation] = []
        for topic in topics:
            try:
                seen.append(observation(topic, options))
            except TopicMissing as missing:  # a topic that does not exist yet must not hide the others
                context.log.info(str(missing))
        return dg.SensorResult(asset_events=seen, skip_reason=f"Recorded {len(seen)} of {len(topics)} topics.")

    return observe


def observation(topic: str, options: dict[str, str]) -> dg.AssetObservation:
    """What the broker says about the topic now. Raises TopicMissing, and BrokerAway."""
    facts = topic_facts(options, topic)
    view = KafkaBroker(options, timeout=PATIENCE).describe(topic)
    ends = {f"end_offset_{p}": held.end for p, held in sorted(view.partitions.items())}
    offsets = sum(held.end - held.low for held in view.partitions.values())
    metadata = {**facts, "messages": offsets, "end_offsets": sum(ends.values()), **ends, "topic_id": view.topic_id}
    return dg.AssetObservation(topic_key(topic), metadata=metadata)


def _columns(contracts: Sequence[Contract]) -> list[dg.TableColumn]:
    """The keys of the message, in the order of the contracts, each with what every contract says of it."""
    found: dict[MessagePath, list[Field]] = {}
    for contract in contracts:
        for item in contract.fields:
            found.setdefault(item.path, []).append(item)
    return [_column(path, said, everywhere=len(said) == len(contracts)) for path, said in found.items()]


def _column(path: MessagePath, said: Sequence[Field], *, everywhere: bool) -> dg.TableColumn:
    rules = [rule.description for item in said for rule in item.rules if rule.kind != "required"]
    descriptions = dict.fromkeys(item.description for item in said if item.description)
    classifications = dict.fromkeys(item.classification for item in said if item.classification)
    required = everywhere and all(item.required for item in said)
    return dg.TableColumn(
        spell_path(path),
        " or ".join(dict.fromkeys(item.type.name for item in said)),
        description=" / ".join(descriptions) or None,
        constraints=dg.TableColumnConstraints(nullable=not required, other=list(dict.fromkeys(rules))),
        tags={"classification": ", ".join(classifications)} if classifications else {},
    )
