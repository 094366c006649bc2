"""The publishing transaction, statement by statement. Their order, and the reasons for it, are in engine/publish.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from platform_defs.contract.model import Aggregate, CheckResult, Contract, Table
from platform_defs.contract.own_columns import target_columns
from platform_defs.engine.breaker import recent_with
from platform_defs.engine.ports import RefusedRow, Staged
from platform_defs.errors import Fenced, RowRefused, StagingLost
from platform_defs.halts import PartitionSpan
from platform_defs.offsets import OffsetRange, nth_offset, whole_spans
from resources.postgres.connection import Connection, database_errors, queries
from resources.postgres.staging import multirange
from resources.postgres.tables import check_target, closed_list, identifier, lock_target, staging_table


@dataclass(frozen=True)
class Holder:
    """Who holds a pipeline: every write names all of it."""

    pipeline: str
    epoch: int
    owner: UUID
    run_id: str | None = None

    @property
    def key(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "epoch": self.epoch, "owner": self.owner, "run_id": self.run_id}


def lock_as_owner(connection: Connection, holder: Holder) -> None:
    """Lock the pipeline's row as its owner for the rest of the transaction. Raises Fenced when it no longer is."""
    if connection.execute(queries()["lock_as_owner"], holder.key).fetchone() is None:
        raise Fenced.not_the_owner(holder.pipeline, holder.epoch)


@dataclass
class PostgresPublication:
    """See engine.ports.Publication. Lives inside one open transaction of `connection`."""

    connection: Connection
    holder: Holder
    contract: Contract
    staged: Staged

    def lock_as_owner(self) -> None:
        """The pipeline's row, for the rest of the transaction."""
        lock_as_owner(self.connection, self.holder)

    def check_tables(self) -> None:
        """Each table is still what the contract says, and stays so until the transaction ends."""
        for table in self.contract.tables:  # locked first: an ALTER after the check would convert what is written
            lock_target(self.connection, table)
            check_target(self.connection, self.holder.pipeline, table)

    def prove_coverage(self) -> None:
        """Every planned range has its complete attempt, still there and as the driver saw it."""
        rows = self._fetch("coverage", staging_id=self.staged.staging_id)
        stored = {row[0]: (row[1], row[2], row[3], row[4], row[5], row[6]) for row in rows}
        for item in self.staged.coverage:
            span = item.range
            seen = (span.partition, span.from_offset, span.until_offset, item.messages, item.rows, item.dead_letters)
            if stored.get(item.attempt) != seen:
                raise StagingLost.coverage(span)
        if sorted(item.range for item in self.staged.coverage) != sorted(self.staged.pending.ranges):
            raise StagingLost.ranges()

    def move_positions(self) -> None:
        """Each position from where the batch was planned to where it ends, with the epoch in which that was seen."""
        pending, spans = self.staged.pending, self._spans
        moved = self.connection.execute(
            queries()["move_positions"],
            {
                **self.holder.key,
                "batch_id": pending.batch_id,
                "topic": self.contract.topic,
                "topic_id": pending.topic_id,
                "cluster_id": pending.cluster_id,
                "partitions": [span.partition for span in spans],
                "from_offsets": [span.from_offset for span in spans],
                "until_offsets": [span.until_offset for span in spans],
                "leader_epochs": [self._epochs[span.partition] for span in spans],
            },
        )
        if moved.rowcount != len(spans):
            missed = len(spans) - moved.rowcount
            raise Fenced.positions_moved(self.holder.pipeline, pending.batch_id, missed, len(spans))

    def write_rows(self) -> None:
        """The winners' rows into the row table, then merged into each accumulate. Only here is a row ever refused."""
        with database_errors("table"):
            self._write_rows()
            self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def _write_rows(self) -> None:
        table, everything = self.contract.row_table, sql.SQL("true")
        if table.disposition == "append":
            written = append(self, table, everything)
        else:
            written = self._count()
            upsert(self, table, everything)
        if written != self.staged.rows:
            raise StagingLost.rows(self.staged.rows, written)
        for accumulate_table in self.contract.accumulates:
            accumulate(self, accumulate_table)

    def write_dead_letters(self) -> None:
        """The dead letters of the attempts that coverage chose, as many as it counted."""
        written = self.connection.execute(
            queries()["write_dead_letters"],
            {
                **self.holder.key,
                "batch_id": self.staged.pending.batch_id,
                "topic": self.contract.topic,
                "topic_id": self.staged.pending.topic_id,
                "staging_id": self.staged.staging_id,
                "attempts": [item.attempt for item in self.staged.coverage],
            },
        )
        if written.rowcount != self.staged.dead_letters:
            raise StagingLost.dead_letters(self.staged.dead_letters, written.rowcount)

    def write_record(
        self, checks: Sequence[CheckResult], timings: Mapping[str, float], event: Mapping[str, Any]
    ) -> None:
        """The batch, its ranges, its check results and its lineage event; the pending batch is done."""
        self._record_batch(timings)
        self._record_ranges()
        self._record_checks(checks)
        self._execute("write_lineage", **self._batch, event=Jsonb(dict(event)))
        recent = recent_with(self.contract.limits, self.staged)
        self._execute("clear_pending", **self._batch, recent=Jsonb(recent.to_json()))

    @property
    def winners(self) -> sql.Composable:
        """The condition that a staged row was copied by an attempt whose result arrived, and is of a planned range."""
        return sql.SQL(
            "_attempt = ANY({}) AND EXISTS (SELECT FROM (VALUES {}) AS planned (_in, low, high)"
            " WHERE _in = _partition AND low <= _offset AND _offset < high)"
        ).format(sql.Literal(list(self.staged.winners)), sql.SQL(", ").join(map(_values, self._spans)))

    @property
    def _batch(self) -> dict[str, Any]:
        return {**self.holder.key, "batch_id": self.staged.pending.batch_id}

    @property
    def _spans(self) -> list[PartitionSpan]:
        """What is planned of each partition, as one span."""
        return whole_spans(self.staged.pending.ranges)

    @property
    def _epochs(self) -> dict[int, int | None]:
        """By partition, the leader epoch in which its log was seen to reach the end of the batch."""
        return {item.partition: item.end_epoch for item in self.staged.pending.ranges}

    def _record_batch(self, timings: Mapping[str, float]) -> None:
        self._execute(
            "write_batch",
            **self._batch,
            messages=self.staged.messages,
            rows=self.staged.rows,
            dead_letters=self.staged.dead_letters,
            unknown_fields=self.staged.unknown_fields,
            contract_version=self.contract.version,
            timings=Jsonb(dict(timings)),
        )

    def _record_ranges(self) -> None:
        for item in self.staged.coverage:
            span = item.range
            self._execute(
                "write_batch_range",
                **self._batch,
                topic=span.topic,
                topic_id=self.staged.pending.topic_id,
                partition=span.partition,
                from_offset=span.from_offset,
                until_offset=span.until_offset,
                messages=item.messages,
                gaps=multirange(item.gaps),
                leader_epoch=self._epochs[span.partition],
            )

    def _record_checks(self, checks: Sequence[CheckResult]) -> None:
        for check in checks:
            self._execute(
                "write_check",
                **self._batch,
                check_name=check.name,
                table_name=check.table,
                severity=check.severity,
                passed=check.passed,
                observed=Jsonb(check.observed),
            )

    def _count(self) -> int:
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(staging_table(self.staged.staging_id), self.winners)
        (count,) = self.connection.execute(query).fetchone() or (0,)
        return count

    def _fetch(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(queries()[name], parameters).fetchall()

    def _execute(self, name: str, **parameters: Any) -> None:
        self.connection.execute(queries()[name], parameters)


def _values(span: PartitionSpan) -> sql.Composable:
    return sql.SQL("({}, {}, {})").format(span.partition, span.from_offset, span.until_offset)


def append(publication: PostgresPublication, table: Table, where: sql.Composable) -> int:
    """Insert the winners' rows for which `where` holds; how many there were."""
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    query = sql.SQL(
        "INSERT INTO {} ({names}, _batch_id, _partition, _offset) "
        "SELECT {}, {}, _partition, _offset FROM {} WHERE {} AND {}"
    ).format(
        identifier(table.name),
        _cast(table),
        publication.staged.pending.batch_id,
        staging_table(publication.staged.staging_id),
        publication.winners,
        where,
        names=names,
    )
    return publication.connection.execute(query).rowcount


def upsert(publication: PostgresPublication, table: Table, where: sql.Composable) -> None:
    """The newest message of each key decides: it replaces the key's row, and a tombstone deletes it."""
    own = [name for name, _ in target_columns(table) if name != "_batch_id"]
    names = [*(column.name for column in table.columns), *own]
    values = sql.SQL(", ").join([_cast(table), *map(sql.Identifier, own)])
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    latest = sql.SQL(
        "SELECT DISTINCT ON (_key) {}, _deleted FROM {} WHERE {} AND {} ORDER BY _key, _offset DESC"
    ).format(columns, staging_table(publication.staged.staging_id), publication.winners, where)
    publication.connection.execute(
        sql.SQL("DELETE FROM {} AS t USING ({}) AS latest WHERE t._key = latest._key AND latest._deleted").format(
            identifier(table.name), latest
        )
    )
    changes = sql.SQL(", ").join(
        sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in [*names, "_batch_id"] if name != "_key"
    )
    publication.connection.execute(
        sql.SQL(
            "INSERT INTO {} ({columns}, _batch_id) SELECT {}, {} FROM ({}) AS latest WHERE NOT _deleted "
            "ORDER BY _key ON CONFLICT (_key) DO UPDATE SET {}"
        ).format(identifier(table.name), values, publication.staged.pending.batch_id, latest, changes, columns=columns)
    )


def _cast(table: Table) -> sql.Composable:
    """The contract's columns as they are read from staging: in their own type where COPY could not write it."""
    return sql.SQL(", ").join(
        sql.Identifier(column.name)
        if column.type.staged == column.type.postgres
        else sql.SQL("{}::{}").format(sql.Identifier(column.name), closed_list(column.type.postgres))
        for column in table.columns
    )


def accumulate(publication: PostgresPublication, table: Table) -> None:
    """Merge this batch's aggregates, in key order: sessions that update the same rows in it never deadlock."""
    keys = sql.SQL(", ").join(map(sql.Identifier, table.group_by))
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    sources = {item.column: _aggregate(item) for item in table.aggregates}
    values = sql.SQL(", ").join(sources.get(c.name, sql.Identifier(c.name)) for c in table.columns)
    merged = sql.SQL(", ").join(_merge(item) for item in table.aggregates)
    publication.connection.execute(
        sql.SQL(
            "INSERT INTO {} AS t ({names}) SELECT {} FROM {} WHERE {} GROUP BY {keys} ORDER BY {keys} "
            "ON CONFLICT ({keys}) DO UPDATE SET {}"
        ).format(
            identifier(table.name),
            values,
            staging_table(publication.staged.staging_id),
            publication.winners,
            merged,
            names=names,
            keys=keys,
        )
    )


_MERGE = {
    "sum": "{0} = coalesce(t.{0} + excluded.{0}, t.{0}, excluded.{0})",
    "count": "{0} = t.{0} + excluded.{0}",
    "min": "{0} = least(t.{0}, excluded.{0})",
    "max": "{0} = greatest(t.{0}, excluded.{0})",
}


def _merge(item: Aggregate) -> sql.Composable:
    return closed_list(_MERGE[item.function]).format(sql.Identifier(item.column))


def _aggregate(item: Aggregate) -> sql.Composable:
    source = sql.SQL("*") if item.source is None else sql.Identifier(item.source)
    return sql.SQL("{}({})").format(sql.SQL(item.function), source)


def find_refused(publication: PostgresPublication) -> RefusedRow | None:
    """The first message, by partition and offset, whose rows the row table rejects.

    Bisects over prefixes, so that of two messages that only together violate a constraint the second is found. None
    where the row table takes everything (then an accumulate's constraint was violated).
    """
    order = sorted(publication.staged.pending.ranges)
    if (why := _refusal(publication, sql.SQL("true"))) is None:
        return None
    low, high = 0, sum(map(len, order))  # offsets accepted, offsets refused
    while high - low > 1:
        middle = (low + high) // 2
        answer = _refusal(publication, _prefix(order, middle))
        low, high, why = (middle, high, why) if answer is None else (low, middle, answer)
    found = nth_offset(order, high - 1)
    return RefusedRow(found.partition, found.from_offset, why.error_class, str(why))


def _refusal(publication: PostgresPublication, where: sql.Composable) -> RowRefused | None:
    """Why the row table refuses the rows for which `where` holds, or None. Raises what else is in the way."""
    write = append if publication.contract.row_table.disposition == "append" else upsert
    try:
        with database_errors("table"), publication.connection.transaction(force_rollback=True):  # nothing stays
            write(publication, publication.contract.row_table, where)
            publication.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except RowRefused as refusal:
        return refusal
    return None


def _prefix(order: Sequence[OffsetRange], count: int) -> sql.Composable:
    """The rows of the first `count` offsets in (partition, offset) order."""
    last = nth_offset(order, count - 1)
    return sql.SQL("(_partition, _offset) <= ({}, {})").format(last.partition, last.from_offset)
