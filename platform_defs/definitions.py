"""All that Dagster loads, composed in one place. Loading opens no connection: Kafka and Postgres may be down."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import dagster as dg

from platform_defs.contract.model.digest import definitions_digest, digest_of
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.dagster.jobs import drain_job, verify_job
from platform_defs.dagster.keys import topic_key
from platform_defs.engine.task import same_install
from platform_defs.errors import BadInput
from platform_defs.pipelines.assets import continuous_job, table_assets
from platform_defs.pipelines.broken import broken_asset, broken_assets, report_broken
from platform_defs.pipelines.checks import verify_check
from platform_defs.pipelines.schedules import nightly_prune, nightly_verify, weekly_verify
from platform_defs.pipelines.sensors import lag_sensor
from platform_defs.producers.written_topics import keys_written
from platform_defs.prune.dagster_job import prune_job
from platform_defs.schemas.dagster.check import naming_topics, schemas_checks, schemas_sensor
from platform_defs.settings.contracts import BrokenContract, find_all
from platform_defs.spark.session import SparkResource
from platform_defs.topics.dagster.assets import by_topic
from platform_defs.topics.dagster.checks import topic_checks
from platform_defs.topics.dagster.sensor import observe_topics, topic_assets
from resources import RESOURCES


def compose(
    pipelines: Sequence[Pipeline],
    broken: Iterable[BrokenContract] = (),
    spark: SparkResource | None = None,
    written: Sequence[dg.AssetsDefinition] = (),
) -> dg.Definitions:
    """Return topics, tables, checks, jobs, sensors and the schedule of these pipelines, and assets for the broken ones.

    `spark`: a session to share; without it each run has its own. `written`: topics that Dagster writes
    (producers/written_topics.py).
    """
    contracts = [pipeline.contract for pipeline in pipelines]
    topics = by_topic(contracts)
    verify = verify_job(contracts)
    staying = any(contract.limits.continuous for contract in contracts)
    loading = [
        *([drain_job(contracts)] if contracts else []),
        *([continuous_job(pipelines)] if staying else []),
    ]
    unusable, naming = broken_assets(tuple(broken)), naming_topics(topics)
    ours = keys_written(written)
    others = [topic for topic in topics if topic_key(topic.name) not in ours]
    return dg.Definitions(
        assets=[
            *topic_assets(others),
            *written,
            *table_assets(pipelines),
            *map(broken_asset, unusable),
        ],
        asset_checks=[
            *map(verify_check, pipelines),
            *([topic_checks(topics)] if topics else []),
            *([schemas_checks(naming)] if naming else []),
        ],
        jobs=[*loading, verify, prune_job(contracts)],
        sensors=[
            *([lag_sensor(contracts, loading, _digest(pipelines))] if contracts else []),
            observe_topics(topics),
            *([schemas_sensor(naming)] if naming else []),
            *([report_broken(unusable)] if unusable else []),
        ],
        schedules=[nightly_prune(), nightly_verify(verify, contracts), weekly_verify(verify, contracts)],
        resources={**RESOURCES, "spark": spark} if spark else RESOURCES,
        executor=dg.in_process_executor,  # one Spark session per run
    )


def _digest(pipelines: Sequence[Pipeline]) -> str:
    """Return a digest of the pipelines and the code that reads them. A run that began with another ends its turns."""
    return digest_of((definitions_digest(pipelines), same_install.here()))


def load(written: Sequence[dg.AssetsDefinition] = ()) -> dg.Definitions:
    """Load everything under assets/. A broken contract is a warning here and a red check in Dagster; the rest runs.

    `written`: topics that Dagster writes, in a module of your own that workspace.yaml then names.
    """
    found = find_all()
    for item in found.broken:
        _warn(item)
    try:
        every = compose(found.pipelines, found.broken, written=written)
        dg.Definitions.validate_loadable(every)
    except Exception:  # noqa: BLE001  # Dagster has no one error for it; `composable` finds whose it is
        good, refused = composable(found.pipelines)
        for item in refused:
            _warn(item)
        return compose(good, (*found.broken, *refused), written=written)
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


defs = load()
