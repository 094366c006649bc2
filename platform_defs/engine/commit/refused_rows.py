"""The messages of a staged batch that its row table refuses: found together, in a transaction that is rolled back.

Only the table itself can decide: its refusals may depend on its rows, on other tables and on triggers. So the batch is
written to it in parts, in the order of partition and offset. A part that it takes stays; one that it refuses is halved.
If two messages violate a constraint only together, the second is found. An upsert into a table with another unique
constraint is published in that order as well, each message checked alone, so the search finds what publish meets.

With k such messages among n, about n * (2 + log2(k) / 2) rows are written, which are dead afterwards until Postgres
vacuums the table. If triggers may write rows, each accepted part is written twice.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from psycopg import sql

from platform_defs.engine.commit.publish_statements import PostgresPublication
from platform_defs.engine.commit.row_writing import StagedRows, accumulate, append
from platform_defs.engine.staging.staging_tables import STAGING_SCHEMA
from platform_defs.errors import NotReproduced, RowRefused
from platform_defs.offsets import OffsetRange, nth_offset
from platform_defs.postgres.connection import queries

EVERYTHING = sql.SQL("true")
MAX_EXCLUDED = 200  # messages in a batch: more are no isolated bad messages
TRIED_AGAIN = 2_000  # rejected messages that are tried again, since they may reference what comes later
PART = 2_000  # maximum offsets that are written in one savepoint, if checks wait for triggers


@dataclass(frozen=True)
class RefusedRow:
    """The message whose rows the row table rejects, with Postgres' error."""

    partition: int
    offset: int
    error_class: str  # of psycopg.errors, such as NotNullViolation
    message: str


def find_refused(publication: PostgresPublication) -> Sequence[RefusedRow]:
    """Return the messages, by partition and offset, that the row table refuses; MAX_EXCLUDED + 1 if there are more.

    Nothing remains of the search when the open transaction is rolled back.
    """
    for table in publication.contract.accumulates:  # rows may reference their groups by a deferred key
        savepoint = publication.connection.transaction()
        with suppress(RowRefused), publication.table_errors(), savepoint:
            accumulate(publication.rows, table)
    search = _Search(publication, sorted(publication.staged.pending.ranges), _rows_in_order(publication))
    while search.write_round() and _newest_only(publication):
        search.begin_round()
    return sorted(search.found.values(), key=lambda row: (row.partition, row.offset))[: MAX_EXCLUDED + 1]


def find_first_refused(publication: PostgresPublication) -> Sequence[RefusedRow]:
    """Return the first message that the row table rejects when the batch is written in publish's own order.

    Called when `find_refused` finds none, since the order of writing can matter. Empty for an upsert that is written
    message by message, since `find_refused` already used that order, or if the table accepts every row. The caller
    must roll the transaction back.
    """
    if publication.other_keys:
        return ()
    first = _first_of_prefixes(publication, sorted(publication.staged.pending.ranges))
    return () if first is None else (first,)


@dataclass
class _Search:
    """Writes `rows` round by round and collects the rejected messages in `found`. Later rounds occur only for upserts:
    each has the next older message of the keys whose messages so far were all rejected.
    """

    publication: PostgresPublication
    order: Sequence[OffsetRange]
    rows: StagedRows
    round: int = 1
    found: dict[int, RefusedRow] = field(default_factory=dict[int, RefusedRow])  # by number of the offset in `order`

    def write_round(self) -> bool:
        """Write this round's rows. Return True if more messages were rejected and the limit is not reached."""
        before, count = len(self.found), sum(map(len, self.order))
        size = PART if self.publication.has_writing_triggers else max(count, 1)
        for first in range(0, count, size):
            self._halve(range(first, min(first + size, count)))
        rejected = len(self.found) > before
        if self.round == 1 or not rejected:  # for a key with many bad messages, not in each round
            self._retry()
        return rejected and 0 < len(self.found) <= MAX_EXCLUDED

    def begin_round(self) -> None:
        """Begin the next round: for each key whose messages so far were all rejected, add the next older one."""
        found, staged = self.found.values(), self.publication.rows
        places = sql.SQL(", ").join(sql.SQL("({}, {})").format(row.partition, row.offset) for row in found)
        self.round += 1
        older = sql.SQL(queries()["add_older"])
        given = {"rows": self.rows.source, "staged": staged.source, "winners": staged.winners, "places": places}
        self.publication.connection.execute(older.format(**given, round=self.round))

    def _halve(self, part: range, *, refused: bool = False) -> bool:
        """Write the offsets of `part`, except refused ones. Return True if any is refused. `refused`: the part as a
        whole is known to be.
        """
        if len(self.found) > (MAX_EXCLUDED if self.publication.other_keys else TRIED_AGAIN):
            return True
        if not refused or len(part) == 1:
            why = self._write(self._part(part))
            if why is None:
                return False
            if len(part) == 1:
                at = nth_offset(self.order, part.start)
                self.found[part.start] = RefusedRow(at.partition, at.from_offset, why.error_class, str(why))
                return True
        middle = len(part) // 2
        first = self._halve(part[:middle])
        return self._halve(part[middle:], refused=not first) or first

    def _retry(self) -> None:
        """Write the rejected messages again until none is accepted: one may reference a row that was written later. If
        publish writes in order, a message is rejected in its place, whatever follows.
        """
        accepted = not self.publication.other_keys
        while accepted:
            # From the end: a referenced row is then written before those that reference it.
            accepted = [number for number in sorted(self.found, reverse=True) if self._write(self._one(number)) is None]
            for number in accepted:
                del self.found[number]

    def _part(self, part: range) -> sql.Composable:
        """Return the condition of this round's rows for these offsets."""
        first, last = nth_offset(self.order, part[0]), nth_offset(self.order, part[-1])
        return sql.SQL("(_partition, _offset) BETWEEN ({}, {}) AND ({}, {}) AND _round = {}").format(
            first.partition, first.from_offset, last.partition, last.from_offset, self.round
        )

    def _one(self, number: int) -> sql.Composable:
        at = nth_offset(self.order, number)
        return sql.SQL("(_partition, _offset) = ({}, {})").format(at.partition, at.from_offset)

    def _write(self, within: sql.Composable) -> RowRefused | None:
        """Return why the row table refuses the rows that match `within`; None if it took them."""
        if not self.publication.has_writing_triggers:
            return _refusal(self.publication, self.rows, within, stays=True)
        # In a savepoint Postgres keeps each deferred check, and reads them all for each later message. A rollback drops
        # them: rows that are to stay are written outside of it.
        if (why := _refusal(self.publication, self.rows, within, stays=False)) is None:
            try:
                with self.publication.table_errors():
                    self.publication.upsert(self.rows, within)
            except RowRefused as refusal:  # a trigger or default that is not deterministic
                raise NotReproduced(
                    f"{self.publication.contract.row_table.name} accepted rows in a trial write and then rejected them "
                    f"({refusal}); the batch will be read again"
                ) from refusal
        return why


def _refusal(
    publication: PostgresPublication, rows: StagedRows, where: sql.Composable, *, stays: bool
) -> RowRefused | None:
    """Return why the row table refuses the rows that match `where`; None if it takes them. `stays`: keep them then.
    Raises any other error.
    """
    table = publication.contract.row_table
    savepoint = publication.connection.transaction(force_rollback=not stays)
    try:
        with publication.table_errors(), savepoint:
            if table.disposition == "append":
                append(rows, table, where)
            else:
                publication.upsert(rows, where)
            publication.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except RowRefused as refusal:
        return refusal
    return None


def _newest_only(publication: PostgresPublication) -> bool:
    """Return True for an upsert that publishes only the newest message of each key."""
    return publication.contract.row_table.disposition == "upsert" and not publication.other_keys


def _rows_in_order(publication: PostgresPublication) -> StagedRows:
    """Copy the rows that publish writes to a table in the order of the offsets, with an index: each part is read
    alone.
    """
    rows, name = publication.rows, sql.Identifier(STAGING_SCHEMA, f"in_order_{publication.staged.staging_id}")
    chosen = sql.SQL("SELECT * FROM {} WHERE {}").format(rows.source, rows.winners)
    if _newest_only(publication):
        chosen = sql.SQL("SELECT DISTINCT ON (_key) * FROM ({}) AS s ORDER BY _key, _offset DESC").format(chosen)
    for statement in (
        "CREATE UNLOGGED TABLE {name} AS SELECT *, 1 AS _round FROM ({chosen}) AS c ORDER BY _partition, _offset",
        "CREATE INDEX ON {name} (_partition, _offset)",
    ):
        publication.connection.execute(sql.SQL(statement).format(name=name, chosen=chosen))
    return replace(rows, source=name, winners=EVERYTHING)


def _first_of_prefixes(publication: PostgresPublication, order: Sequence[OffsetRange]) -> RefusedRow | None:
    """Return the first message that the table refuses if all before it are written with it, in publish's order."""
    if (why := _refusal(publication, publication.rows, EVERYTHING, stays=False)) is None:
        return None
    low, high = 0, sum(map(len, order))  # offsets accepted, offsets refused
    while high - low > 1:
        middle = (low + high) // 2
        last = nth_offset(order, middle - 1)
        first = sql.SQL("(_partition, _offset) <= ({}, {})").format(last.partition, last.from_offset)
        answer = _refusal(publication, publication.rows, first, stays=False)
        low, high, why = (middle, high, why) if answer is None else (low, middle, answer)
    found = nth_offset(order, high - 1)
    return RefusedRow(found.partition, found.from_offset, why.error_class, str(why))
