"""The statements with which a pipeline adopts its tables by name, inside the one open transaction of the adoption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from platform_defs.contract.model.contract import Table
from platform_defs.errors import BadInput
from platform_defs.postgres.connection import LOCK_WAIT, Connection, dict_rows, lock_timeout, queries
from platform_defs.postgres.live_table import read_live, refuse_unfit, refuse_unidentified, rights_on
from platform_defs.postgres.tables import identifier


@dataclass(frozen=True)
class NamedOutput:
    """A table of the pipeline: the OID in the ledger, and the one that its name has now."""

    table_name: str
    definition: str | None
    batch_id: int | None
    was: int | None
    becomes: int | None
    owner: str | None  # another pipeline that has this very table


@dataclass(frozen=True)
class SequenceStep:
    """A sequence that would repeat numbers: the last number it gave, and the highest in the ledger."""

    sequence: str
    was: int
    becomes: int


@dataclass(frozen=True)
class AdoptionLedger:
    """The tables of `pipeline` in the ledger, and the changes to them."""

    connection: Connection
    pipeline: str

    def lock(self) -> int | None:
        """Lock the pipeline's row and return its newest batch. Raises BadInput if the pipeline is not in the ledger."""
        self.connection.execute(lock_timeout(LOCK_WAIT))
        row = self.connection.execute(queries()["adopted_pipeline"], self._key).fetchone()
        if row is None:
            raise BadInput("the ledger does not know this pipeline: there is nothing to adopt", field=self.pipeline)
        return row[0]

    def outputs(self) -> list[NamedOutput]:
        """Return every table that the pipeline has ever claimed, by name."""
        with self.connection.cursor(row_factory=class_row(NamedOutput)) as cursor:
            return cursor.execute(queries()["outputs_by_name"], self._key).fetchall()

    def refuse_unfit(self, table: Table) -> None:
        """Raise BadInput if the table could not be filled, whoever owns it."""
        live = read_live(self.connection, self.pipeline, table)
        if live is not None:
            refuse_unfit(table, live)
            if live.published:
                refuse_unidentified(self.connection, table, rights_on(table))

    def has_rows(self, table: str) -> bool:
        query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(identifier(table))
        return self.connection.execute(query).fetchone() is not None

    def sequences_behind(self) -> list[SequenceStep]:
        """Return the ledger's sequences that are behind the ledger's highest numbers, as after a copy."""
        (highest,) = dict_rows(self.connection, "highest_ids", {})
        identities = dict_rows(self.connection, "identities", {})
        held = {f"tidegate.{name}": int(value) for name, value in highest.items()}
        held |= {str(item["sequence"]): self._highest(item) for item in identities}
        steps = [SequenceStep(name, self._last_given(name), value) for name, value in held.items()]
        return [step for step in steps if step.was < step.becomes]

    def bind(self, tables: Sequence[str]) -> None:
        """Bind the tables of these names to the pipeline; a pipeline that had such an OID before loses it."""
        for name in ("unbind", "bind"):
            self.connection.execute(queries()[name], {**self._key, "tables": list(tables)})

    def advance(self, step: SequenceStep) -> None:
        """Advance the sequence past the numbers in the ledger."""
        self.connection.execute("SELECT setval(%s::regclass, %s)", [step.sequence, step.becomes])

    def record(self, actions: Mapping[str, Any], reason: str, who: str) -> int:
        """Record who adopted what, and why. Return the adoption's id. Fences every run."""
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
