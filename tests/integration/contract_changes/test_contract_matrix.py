"""Every class of change on real tables: after the statements, Postgres' columns are those of the new contract."""

from dataclasses import replace

import pytest
from psycopg import sql

from platform_defs.contract.evolution.plan import plan
from platform_defs.contract.evolution.statements import ColumnShape, Shapes
from platform_defs.contract.model.contract import Contract
from platform_defs.ledger.contract_ledger import ContractLedger, run
from platform_defs.postgres.connection import Connection, connect, queries
from platform_defs.postgres.tables import create_target, identifier
from tests.support.world import World
from tests.unit.evolution.test_evolution import CASES, Case, changed_by

ROW = {
    "order_id": "O1",
    "price": "1.25",
    "weight": "1.5",
    "kind": "web",
    "total": "1.25",
    "orders": "1",
    "_batch_id": "1",
    "_partition": "0",
    "_offset": "0",
}


def filled(connection: Connection, contract: Contract) -> None:
    """Create the contract's tables, each with a row that has a value in every column."""
    connection.execute(queries()["register_pipeline"], {"pipeline": contract.pipeline})
    for table in contract.tables:
        create_target(connection, table)
        owned = {"table": table.name, "disposition": table.disposition, "definition": table.definition}
        connection.execute(queries()["own_output"], {**owned, "pipeline": contract.pipeline})
        there = connection.execute(f"select * from {table.name}".encode()).description or []
        names = [column.name for column in there]
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            identifier(table.name),
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join(sql.Literal(ROW[name]) for name in names),
        )
        connection.execute(insert)


def wanted(contract: Contract, shapes: Shapes) -> dict[str, dict[str, ColumnShape | None]]:
    """Return the contract's columns in tables that exist, in the form of Postgres' own."""
    return {
        table.name: {c.name: ColumnShape(c.type.postgres, c.required) for c in table.columns}
        for table in contract.tables
        if table.name in shapes
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_tables_are_what_the_new_contract_says(world: World, case: Case) -> None:
    found = changed_by(case)
    old, new = found.old, found.new
    world.ledger.migrate()
    with connect(world.endpoints.postgres_url) as connection, connection.transaction(force_rollback=True):
        filled(connection, old)
        ledger = ContractLedger(connection, old.pipeline)
        found = plan(old, new, ledger.shapes(new), case.given)
        assert tuple(item.sql for item in found.statements) == case.sql
        if any(item.refused for item in found.statements):  # rows must go: a replay restores them
            for table in new.tables:
                connection.execute(sql.SQL("DELETE FROM {}").format(identifier(table.name)))
            found = plan(old, new, ledger.shapes(new), replace(case.given, emptied=True))
        done = [item.sql for item in run(connection, found.statements)]
        assert done == [item.sql for item in found.statements]
        shapes = ledger.shapes(new)
        for name, columns in wanted(new, shapes).items():
            assert {column: shapes[name].get(column) for column in columns} == columns
        assert plan(new, new, shapes).statements == ()
