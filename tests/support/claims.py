"""Step 0 of a run, which takes a pipeline and its tables."""

from contextlib import closing

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.lease.lease import acquire
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.live_table import LiveTable, read_live
from tests.support.world import World


def claim(ledger: Ledger, contract: Contract) -> None:
    """Execute step 0 of a run, which takes the pipeline and its tables, and release the pipeline."""
    with closing(acquire(ledger.url, contract)):
        pass


def do(world: World, pipeline: Pipeline, *statements: str) -> None:
    for statement in statements:
        world.rows(statement.format(table=pipeline.contract.row_table.name, schema=pipeline.name))


def live_table(world: World, contract: Contract, table: Table) -> LiveTable:
    with world.session() as session:
        live = read_live(session, contract.pipeline, table)
    assert live is not None
    return live
