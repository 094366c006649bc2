"""The statements with which a pipeline takes its tables by name, inside the one open transaction in which it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from platform_defs.contract.model.contract import Table
from platform_defs.errors import BadInput
from resources.postgres.session.connection import LOCK_WAIT, Connection, queries
from resources.postgres.tables.live_table import read_live, refuse_unfit
from resources.postgres.tables.tables import identifier


@dataclass(frozen=True)
class NamedOutput:
    """A table of the pipeline: the OID that the ledger knows, and the one that its name has now."""

    table_name: str
    definition: str | None
    batch_id: int | None
    was: int | None
    becomes: int | None
    owner: str | None  # another pipeline that has this very table


@dataclass(frozen=True)
class SequenceStep:
    """A sequence that would hand out numbers again: the last number it gave, and the highest that the ledger holds."""

    sequence: str
    was: int
    becomes: int


@dataclass(frozen=True)
class AdoptionLedger:
    """What the ledger knows of `pipeline`'s tables, and the changes to it."""

    connection: Connection
    pipeline: str

    def lock(self) -> int | None:
        """The pipeline's newest batch, its row locked. Raises BadInput where the ledger does not know the pipeline."""
        self.connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_WAIT)))
        row = self.connection.execute(queries()["adopted_pipeline"], self._key).fetchone()
        if row is None:
            raise BadInput("the ledger does not know it: there is nothing to adopt", field=self.pipeline)
        return row[0]

    def outputs(self) -> list[NamedOutput]:
        """Every table that the pipeline has ever claimed, by name."""
        with self.connection.cursor(row_factory=class_row(NamedOutput)) as cursor:
            return cursor.execute(queries()["outputs_by_name"], self._key).fetchall()

    def refuse_unfit(self, table: Table) -> None:
        """Raise BadInput where the table could not be filled, whosever it is."""
        live = read_live(self.connection, self.pipeline, table)
        if live is not None:
            refuse_unfit(table, live)

    def has_rows(self, table: str) -> bool:
        """Return True if the table holds anything."""
        query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(identifier(table))
        return self.connection.execute(query).fetchone() is not None

    def sequences_behind(self) -> list[SequenceStep]:
        """The ledger's sequences that have not given a number which it holds: a copy leaves them behind."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            highest = cursor.execute(queries()["highest_ids"]).fetchone() or {}
            identities = cursor.execute(queries()["identities"]).fetchall()
        held = {f"tidegate.{name}": int(value) for name, value in highest.items()}
        held |= {str(item["sequence"]): self._highest(item) for item in identities}
        steps = [SequenceStep(name, self._last_given(name), value) for name, value in held.items()]
        return [step for step in steps if step.was < step.becomes]

    def bind(self, tables: Sequence[str]) -> None:
        """The tables of these names become the pipeline's; whoever had such an OID before has none."""
        for name in ("unbind", "bind"):
            self.connection.execute(queries()[name], {**self._key, "tables": list(tables)})

    def advance(self, step: SequenceStep) -> None:
        """The next number is one that the ledger does not hold."""
        self.connection.execute("SELECT setval(%s::regclass, %s)", [step.sequence, step.becomes])

    def record(self, actions: Mapping[str, Any], reason: str, who: str) -> int:
        """Who, why and what; the adoption's id. Fences every run."""
        parameters = {**self._key, "actions": Jsonb(actions), "reason": reason, "adopted_by": who}
        (adoption_id,) = self.connection.execute(queries()["record_adoption"], parameters).fetchone() or (0,)
        return adoption_id

    @property
    def _key(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline}

    def _highest(self, identity: Mapping[str, Any]) -> int:
        query = sql.SQL("SELECT coalesce(max({}), 0) FROM {}").format(
            sql.Identifier(identity["column"]), sql.Identifier("tidegate", identity["table"])
        )
        (highest,) = self.connection.execute(query).fetchone() or (0,)
        return highest

    def _last_given(self, sequence: str) -> int:
        query = sql.SQL("SELECT last_value - (NOT is_called)::int FROM {}").format(identifier(sequence))
        (last,) = self.connection.execute(query).fetchone() or (0,)
        return last
