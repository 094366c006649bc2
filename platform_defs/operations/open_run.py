"""Everything outside that a run touches, opened from the settings: what `engine.batch.drain` is handed."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine.batch import Outside
from resources.endpoints import Endpoints
from resources.kafka.broker import KafkaBroker
from resources.kafka.source import KafkaSource
from resources.lineage import OpenLineageEvents
from resources.postgres.auditor import GreatExpectationsAuditor
from resources.postgres.ledger import Ledger


@contextmanager
def open_run(
    pipeline: Pipeline,
    endpoints: Endpoints,
    spark: Callable[[], SparkSession],
    run_id: str | None = None,
    *,
    ledger: Ledger | None = None,
    unless_held: bool = False,
) -> Generator[Outside]:
    """Become the owner of `pipeline` for as long as the block runs (step 0). Migrates the ledger first: that of
    `endpoints`, unless one is handed over that keeps its connections.

    A run that has the pipeline is fenced, or, with `unless_held` and if it is alive, left alone: PipelineHeld is
    raised. Raises Halt where the pipeline is halted, BadInput where a table is not what the contract says or the ledger
    is newer than the code, LedgerAway where Postgres is.
    """
    ledger = ledger or Ledger(endpoints.postgres_url)
    ledger.migrate()
    options = endpoints.kafka_options()
    held = ledger.acquire(pipeline.contract, run_id, unless_held=unless_held)
    place = conninfo_to_dict(endpoints.postgres_url)
    events = OpenLineageEvents(endpoints.bootstrap_servers, f"{place.get('host')}:{place.get('port', 5432)}")
    try:
        auditor = GreatExpectationsAuditor(endpoints.postgres_url)
        yield Outside(held, KafkaBroker(options), KafkaSource(options), spark, events, auditor)
    finally:
        held.close()
