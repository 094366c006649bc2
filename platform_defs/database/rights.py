"""The rights of three roles: an owner creates and migrates, a publisher runs, a reader reads (docs/how-to/rights.md).

The statements are printed, and never executed here: granting is a decision of the database's owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.postgres.connection import queries
from platform_defs.postgres.live_table import rights_on
from platform_defs.postgres.tables import closed_list, identifier


@dataclass(frozen=True)
class Roles:
    """The three roles, by name."""

    owner: str
    publisher: str
    reader: str

    def grants(self, contracts: Iterable[Contract], *, dagster: bool) -> list[str]:
        """Return the statements for the owner to execute, each group with a comment on its purpose. Repeating them
        changes nothing. `dagster` includes Dagster's storage in the same database.
        """
        tables = sorted((table for contract in contracts for table in contract.tables), key=lambda table: table.name)
        schemas = dict.fromkeys(table.name.partition(".")[0] for table in tables)
        names = ["rights_on_ledger", "rights_on_later_ledger", "rights_on_staging"]
        names += ["rights_on_dagster"] if dagster else []
        names += ["rights_on_language"] if any(table.disposition == "upsert" for table in tables) else []
        return [
            *map(self._written, names),
            *_said_once(self._written("rights_in_schema", schema=sql.Identifier(schema)) for schema in schemas),
            *_said_once(self._on_table(table) for table in tables),
        ]

    def _on_table(self, table: Table) -> str:
        rights = closed_list(", ".join(rights_on(table)))
        return self._written("rights_on_table", table=identifier(table.name), rights=rights)

    def _written(self, name: str, **parts: sql.Composable) -> str:
        roles = {role: sql.Identifier(given) for role, given in vars(self).items()}
        return sql.SQL(queries()[name]).format(**roles, **parts).as_string()


def _said_once(statements: Iterable[str]) -> list[str]:
    """Return statements of one purpose, with the comment only before the first."""
    return [item if number == 0 else item.partition("\n")[2] for number, item in enumerate(statements)]
