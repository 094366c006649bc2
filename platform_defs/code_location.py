"""All that Dagster loads for a folder of contracts, composed in one place.

Loading opens no connection: Kafka and Postgres may be down. Everything can be merged with a user's own definitions: the
executor belongs to Tidegate's own jobs, resources have names of their own, and so have jobs, ops, sensors and schedules
if `names` is given.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import dagster as dg

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.digest import definitions_digest, digest_of
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.jobs import drain_job, verify_job
from platform_defs.dagster.keys import topic_key
from platform_defs.dagster.run_session import RunSession
from platform_defs.engine.task import same_install
from platform_defs.errors import BadInput
from platform_defs.pipelines.assets import continuous_job, table_assets
from platform_defs.pipelines.broken import broken_asset, broken_assets, report_broken
from platform_defs.pipelines.checks import verify_check
from platform_defs.pipelines.schedules import nightly_prune, verify_schedule
from platform_defs.pipelines.sensors import lag_sensor
from platform_defs.producers.dagster_resource import KafkaProducerResource
from platform_defs.producers.written_topics import keys_written
from platform_defs.prune.dagster_job import prune_job
from platform_defs.schemas.dagster.check import naming_topics, schemas_checks, schemas_sensor
from platform_defs.settings.contracts import BrokenContract, find_all
from platform_defs.spark.resource import SparkResource
from platform_defs.topics.dagster.assets import by_topic
from platform_defs.topics.dagster.checks import topic_checks
from platform_defs.topics.dagster.sensor import observe_topics, topic_assets

# One object for each name: Dagster merges definitions that share a resource only if it is the same object.
RESOURCES: Final[dict[str, Any]] = {
    "tidegate_spark": SparkResource(),  # a session for each run
    "tidegate_run_session": RunSession(),
    "tidegate_kafka_producer": KafkaProducerResource(),
}

# The contracts that this process has loaded, by the prefix of their keys: ledger, tables and consumer groups have none,
# so a pipeline or a table may be in only one folder.
_loaded = dict[tuple[str, ...], list[Contract]]()


def compose(
    pipelines: Sequence[Pipeline],
    broken: Iterable[BrokenContract] = (),
    spark: SparkResource | None = None,
    written: Sequence[dg.AssetsDefinition] = (),
    *,
    prefix: Sequence[str] = (),
    names: str = "",
    group: str | None = None,
    schedules: bool = True,
) -> dg.Definitions:
    """Return topics, tables, checks, jobs, sensors and schedules of these pipelines, and assets for the broken ones.

    `spark`: a session to share; without it each run has its own. `written`: topics that Dagster writes
    (producers/written_topics.py). `prefix`: of all asset keys. `names`: what the names of jobs, ops, sensors and
    schedules begin with. `group`: of all assets; without it, each has its contract's domain.
    """
    pipelines = [replace(item, contract=replace(item.contract, asset_prefix=tuple(prefix))) for item in pipelines]
    contracts = [pipeline.contract for pipeline in pipelines]
    topics = by_topic(contracts)
    verify, prune = verify_job(contracts, names), prune_job(contracts, names)
    staying = any(contract.limits.continuous for contract in contracts)
    loading = [
        *([drain_job(contracts, names)] if contracts else []),
        *([continuous_job(pipelines, names)] if staying else []),
    ]
    unusable, naming = broken_assets(tuple(broken), prefix), naming_topics(topics)
    written = [_written(item, prefix, names) for item in written]
    ours = keys_written(written)
    others = [topic for topic in topics if topic.key not in ours]
    assets = [
        *topic_assets(others, names),
        *written,
        *table_assets(pipelines, names),
        *(broken_asset(item, names) for item in unusable),
    ]
    if group is not None:
        assets = dg.map_asset_specs(partial(_grouped, group), assets)
    nightly = (
        nightly_prune(prune, names),
        verify_schedule(verify, contracts, names, whole=False),
        verify_schedule(verify, contracts, names, whole=True),
    )
    # Of the pipelines and the code that reads them: a run that began with another ends its turns.
    digest = digest_of((definitions_digest(pipelines), same_install.here()))
    return dg.Definitions(
        assets=assets,
        asset_checks=[
            *(verify_check(item, names) for item in pipelines),
            *([topic_checks(topics, names)] if topics else []),
            *([schemas_checks(naming, names)] if naming else []),
        ],
        jobs=[*loading, verify, prune],
        sensors=[
            *([lag_sensor(contracts, loading, digest, names)] if contracts else []),
            observe_topics(topics, names),
            *([schemas_sensor(naming, names)] if naming else []),
            *([report_broken(unusable, names)] if unusable else []),
        ],
        schedules=nightly if schedules else (),
        resources={**RESOURCES, "tidegate_spark": spark} if spark else RESOURCES,
    )


def _grouped(group: str, spec: dg.AssetSpec) -> dg.AssetSpec:
    grouping: Any = spec  # its methods are typed in part
    return grouping.replace_attributes(group_name=group)


def _written(asset: dg.AssetsDefinition, prefix: Sequence[str], names: str) -> dg.AssetsDefinition:
    """Return the asset of a topic with its key below the prefix, and an op whose name begins with `names`."""
    moving: Any = asset  # as above
    if prefix:
        keys = {key: topic_key(key.path[-1], prefix) for key in asset.keys}
        moving = moving.with_attributes(asset_key_replacements=keys)
    if not names:
        return moving
    op = moving.op.with_replaced_properties(name=f"{names}{moving.op.name}")
    return dg.AssetsDefinition.dagster_internal_init(**{**moving.get_attributes_dict(), "node_def": op})


def load(folder: Path | None = None, written: Sequence[dg.AssetsDefinition] = (), **options: Any) -> dg.Definitions:
    """Return the definitions of all contracts in the folder, by default the one that settings/contracts.py finds. A
    broken contract is a warning here and a red check in Dagster; the rest runs. So is one whose pipeline or table this
    process has loaded with another prefix. `options`: as of `compose`.
    """
    prefix = tuple(options.get("prefix", ()))
    found = find_all(folder, [item for other, items in _loaded.items() if other != prefix for item in items])
    _loaded[prefix] = [pipeline.contract for pipeline in found.pipelines]
    topics = {topic_key(item.contract.topic) for item in (*found.pipelines, *found.broken) if item.contract}
    for key in {key for asset in written for key in asset.keys} - topics:
        message = f"{key.to_user_string()} is no topic of the contracts; pass assets made with tidegate.topic_asset"
        raise BadInput(message, field="include")
    for item in found.broken:
        _warn(item)
    try:
        every = compose(found.pipelines, found.broken, written=written, **options)
        dg.Definitions.validate_loadable(every)
    except Exception:  # noqa: BLE001  # Dagster has no one error for it; `composable` finds whose it is
        good, refused = composable(found.pipelines)
        for item in refused:
            _warn(item)
        return compose(good, (*found.broken, *refused), written=written, **options)
    return every


def _warn(item: BrokenContract) -> None:
    logging.getLogger("tidegate").warning("cannot be used: %s", item.error)


def composable(
    pipelines: Sequence[Pipeline], beside: Sequence[Pipeline] = ()
) -> tuple[tuple[Pipeline, ...], tuple[BrokenContract, ...]]:
    """Return the pipelines that Dagster accepts together, and those that it refuses, each with its message.

    Dagster may refuse a sound contract, alone or beside another. They are found by halves, and only if all together are
    refused.
    """
    if not pipelines:
        return (), ()
    try:
        dg.Definitions.validate_loadable(compose([*beside, *pipelines]))
    except Exception as error:  # noqa: BLE001  # Dagster has no one error for it, and one pipeline must not stop others
        if len(pipelines) == 1:
            return (), (_refused(pipelines[0], error),)
    else:
        return tuple(pipelines), ()
    middle = len(pipelines) // 2
    first, refused = composable(pipelines[:middle], beside)
    second, also_refused = composable(pipelines[middle:], [*beside, *first])
    return (*first, *second), (*refused, *also_refused)


def _refused(pipeline: Pipeline, error: Exception) -> BrokenContract:
    path = pipeline.contract.path or Path(pipeline.name)
    message = str(error).partition("\n")[0]
    return BrokenContract(path, BadInput(f"Dagster cannot load it: {message}", file=str(path)), pipeline.contract)
