"""The external systems of a run, opened from the settings: the context of `engine.batch.drain`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from platform_defs.contract.model.digest import transform_digest
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import RunContext
from platform_defs.engine.commit.auditor import GreatExpectationsAuditor
from platform_defs.engine.interfaces.schema_finder import Schemas
from platform_defs.engine.job.job_limit import JobLimit
from platform_defs.engine.lease.lease import acquire
from platform_defs.engine.plan.replay_plan import SUFFIX
from platform_defs.kafka.broker import BrokerPoll, KafkaBroker
from platform_defs.kafka.source import KafkaSource
from platform_defs.ledger.ledger import Ledger
from platform_defs.settings.settings import settings
from platform_defs.stack.endpoints import Endpoints


@contextmanager
def open_run(
    pipeline: Pipeline,
    endpoints: Endpoints,
    spark: Callable[[], SparkSession],
    run_id: str | None = None,
    *,
    ledger: Ledger | None = None,
    unless_held: bool = False,
) -> Generator[RunContext]:
    """Become the owner of `pipeline` while the block runs (step 0). Migrates the ledger first, unless the caller passes
    one that is migrated.

    A run that has the pipeline is fenced; with `unless_held`, a live one is not, and PipelineHeld is raised. Raises
    Halt if the pipeline is halted, BadInput if a table does not match the contract or the ledger is newer than the
    code, LedgerAway if Postgres is unavailable.
    """
    from platform_defs.lineage.events import OpenLineageEvents  # a slow import, of no use to load definitions

    if ledger is None:
        ledger = Ledger(endpoints.postgres_url)
        ledger.migrate()
    options = endpoints.kafka_options()
    held = acquire(ledger.url, pipeline.contract, run_id, unless_held=unless_held)
    try:
        held.transform_digest = transform_digest(pipeline)
        place = conninfo_to_dict(endpoints.postgres_url)
        events = OpenLineageEvents(endpoints.bootstrap_servers, f"{place.get('host')}:{place.get('port', 5432)}")
        auditor = GreatExpectationsAuditor(endpoints.postgres_url)
        broker = KafkaBroker(options)
        limit = JobLimit(settings().batch_timeout_seconds, poll_brokers=partial(BrokerPoll, options))
        schemas = _schemas(pipeline, endpoints, ledger) if pipeline.contract.wire.framed else None
        yield RunContext(
            ledger=held,
            broker=broker,
            source=KafkaSource(options),
            spark=spark,
            lineage=events,
            auditor=auditor,
            schemas=schemas,
            limit=limit,
        )
    finally:
        held.close()


def _schemas(pipeline: Pipeline, endpoints: Endpoints, ledger: Ledger) -> Schemas:
    """Return the source of the messages' schemas: a replay reads the live pipeline's."""
    from platform_defs.registry.schemas import schemas_of  # the client takes its time to load, and bare JSON needs none

    live = pipeline.name.removesuffix(SUFFIX)
    at = ledger.positions(live)
    topic_id = at[0].topic_id if at else None
    replays = live != pipeline.name
    return schemas_of(pipeline.contract, live, endpoints.postgres_url, endpoints.registry, topic_id, replays=replays)
