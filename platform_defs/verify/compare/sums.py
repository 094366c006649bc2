"""Comparison of accumulate tables with new rows, by sums to which each row contributes.

For each sum and count: the value of every group times a hash of the group, summed. The current sum must be the sum at
the checkpoint plus the contribution of the rows since, exactly. A missing, doubled or misplaced contribution changes
it, and so does a value that was changed manually. A minimum or maximum has no such sum: it must be no worse than that
of each window's rows, before the checkpoint moves past them. Only the full comparison names the wrong keys.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext

from psycopg import sql

from platform_defs.contract.model.contract import Aggregate, Table
from platform_defs.verify.compare.report import Findings
from platform_defs.verify.source.arrow_rows import names_of, table_of
from platform_defs.verify.source.snapshot import Snapshot
from platform_defs.verify.source.windows import FOREVER

Sums = Mapping[str, str]  # by table and column, such as bank.balances.balance: a decimal number
DIGITS = 2_000  # of a sum: 19 of a hash, 38 of a value, and some for the number of rows


def added(one: Sums, other: Sums) -> dict[str, str]:
    """Return the sum of both. A name in only one of them keeps its value."""
    with localcontext(prec=DIGITS):
        return {name: str(Decimal(one.get(name, "0")) + Decimal(other.get(name, "0"))) for name in {**one, **other}}


def compare(snapshot: Snapshot, at_end: Sums, findings: Findings) -> None:
    """Report every sum and count that is not `at_end`, as of the window's last batch, plus the contribution of later
    rows.
    """
    after = sql.SQL("_batch_id > {} AND _batch_id <= {}").format(
        sql.Literal(snapshot.window.until), sql.Literal(FOREVER)
    )
    wanted = added(at_end, of_rows(snapshot, after))
    found = _sums(
        snapshot, lambda item: sql.SQL("coalesce({}, 0)").format(sql.Identifier(item.column)), None, sql.SQL("true")
    )
    rows = snapshot.contract.row_table.name
    for name, value in found.items():
        if Decimal(value) != Decimal(wanted[name]):
            what = f"{name} is not the value at the last check plus the rows of {rows} added since then"
            findings.bad("wrong", f"{what} (tidegate verify without --new names the keys)")


def compare_extremes(snapshot: Snapshot, findings: Findings) -> None:
    """Report every minimum and maximum that is worse than that of the window's rows. Later batches only improve it."""
    rows = snapshot.contract.row_table.name
    for table in snapshot.contract.accumulates:
        for item in table.aggregates:
            if item.function in ("min", "max") and (keys := _worse(snapshot, table, item)):
                what = f"{table.name}.{item.column} does not include the {item.function} of new rows of {rows}"
                findings.bad("wrong", f"{what} (tidegate verify without --new names the keys)", number=keys)


def of_rows(snapshot: Snapshot, where: sql.Composable) -> dict[str, str]:
    """Return the contribution of the rows for which the condition `where` holds."""
    return _sums(snapshot, _of_row, snapshot.contract.row_table, where)


def _of_row(item: Aggregate) -> sql.Composable:
    """Return a row's contribution to the aggregate."""
    if item.source is None:
        return sql.SQL("1")
    shape = "coalesce({}, 0)" if item.function == "sum" else "({} IS NOT NULL)::int"
    return sql.SQL(shape).format(sql.Identifier(item.source))


def _sums(
    snapshot: Snapshot, value: Callable[[Aggregate], sql.Composable], source: Table | None, where: sql.Composable
) -> dict[str, str]:
    """Return the sums of values of `source`; without it, of each accumulate table itself."""
    found = dict[str, str]()
    for table in snapshot.contract.accumulates:
        summed = [item for item in table.aggregates if item.function in ("sum", "count")]
        if not summed:
            continue
        group = sql.SQL("hashtextextended(ROW({})::text, 0)::numeric").format(names_of(table.group_by))
        sums = [sql.SQL("coalesce(sum({} * {}), 0)").format(group, value(item)) for item in summed]
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(sql.SQL(", ").join(sums), table_of(source or table), where)
        values = zip(summed, snapshot.ask(query), strict=True)
        found |= {f"{table.name}.{item.column}": str(total) for item, total in values}
    return found


def _worse(snapshot: Snapshot, table: Table, item: Aggregate) -> int:
    """Return the number of keys with a minimum or maximum worse than that of their rows in the window."""
    query = sql.SQL(
        "SELECT count(*) FROM (SELECT {keys}, {function}({source}) AS due FROM {rows} WHERE {where} "
        "GROUP BY {keys}) AS new LEFT JOIN {table} AS t USING ({keys}) "
        "WHERE new.due IS NOT NULL AND (t.{column} IS NULL OR t.{column} {worse} new.due)"
    ).format(
        keys=names_of(table.group_by),
        function=sql.SQL("min" if item.function == "min" else "max"),
        source=sql.Identifier(item.source or ""),
        rows=table_of(snapshot.contract.row_table),
        where=snapshot.of_batches(),
        table=table_of(table),
        column=sql.Identifier(item.column),
        worse=sql.SQL(">" if item.function == "min" else "<"),
    )
    (keys,) = snapshot.ask(query)
    return keys
