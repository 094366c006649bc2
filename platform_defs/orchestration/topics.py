"""Topics as external assets: Dagster does not make them, it shows what the broker says of them."""

import time
from collections.abc import Sequence

import dagster as dg

from platform_defs.contract.model import Contract, Field
from platform_defs.errors import BadInput
from platform_defs.orchestration.keys import PIPELINE_TAG, topic_key
from resources.endpoints import connection
from resources.kafka.broker import KafkaBroker, topic_facts

EVERY = 60  # seconds between two observations of a topic
PATIENCE = 5.0  # seconds; a sensor must not keep the daemon waiting


def topic_asset(contract: Contract) -> dg.AssetSpec:
    """The topic, with the message that the contract says it carries."""
    columns = [_column(item) for item in contract.fields]
    return dg.AssetSpec(
        topic_key(contract.topic),
        description=f"The topic {contract.topic}, as {contract.pipeline} {contract.version} reads it.",
        group_name=contract.domain,
        kinds={"kafka"},
        tags={PIPELINE_TAG: contract.pipeline},
        metadata={"dagster/column_schema": dg.TableSchema(columns=columns), "format": contract.format},
    )


def observe_topics(contracts: Sequence[Contract]) -> dg.SensorDefinition:
    """A sensor that notes each topic's partitions, retention, replication and offsets, once a minute."""

    @dg.sensor(
        name="topics",
        minimum_interval_seconds=EVERY,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Notes what the broker says of each topic: partitions, retention, replication, end offsets.",
    )
    def topics(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        options = connection().kafka_options()
        seen: list[dg.AssetObservation] = []
        for contract in contracts:
            try:
                seen.append(observation(contract, options))
            except BadInput as missing:  # one topic that is not there yet must not hide the others
                context.log.info(str(missing))
        return dg.SensorResult(asset_events=seen, cursor=str(time.time()))

    return topics


def observation(contract: Contract, options: dict[str, str]) -> dg.AssetObservation:
    """What the broker says of the topic now. Raises BadInput without the topic, BrokerAway without Kafka."""
    facts = topic_facts(options, contract.topic)
    view = KafkaBroker(options, timeout=PATIENCE).describe(contract.topic)
    ends = {f"end_offset_{p}": held.end for p, held in sorted(view.partitions.items())}
    offsets = sum(held.end - held.low for held in view.partitions.values())
    metadata = {**facts, "messages": offsets, "end_offsets": sum(ends.values()), **ends, "topic_id": view.topic_id}
    return dg.AssetObservation(topic_key(contract.topic), metadata=metadata)


def _column(item: Field) -> dg.TableColumn:
    rules = [rule.description for rule in item.rules if rule.kind != "required"]
    return dg.TableColumn(
        item.name,
        item.type.name,
        description=item.description or None,
        constraints=dg.TableColumnConstraints(nullable=not item.required, other=rules),
        tags={"classification": item.classification} if item.classification else {},
    )
