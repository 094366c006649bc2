"""The former names of a contract's columns, and the columns of earlier contracts that a table still has."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from platform_defs.contract.model.contract import Column, Contract


def renames(columns: Sequence[Column], there: Collection[str]) -> Mapping[str, str]:
    """Return new names by old ones, in an order in which they can be applied. `there`: the names that the table has.

    A column whose name the table has is renamed only once another rename has freed that name: a contract may keep a
    former name for any length of time.
    """
    taken, old_names, found = {*there}, {*there}, dict[str, str]()
    while (
        column := next((c for c in columns if c.name not in taken and c.renamed_from in old_names), None)
    ) is not None:
        found[column.renamed_from] = column.name
        old_names.remove(column.renamed_from)
        taken = taken - {column.renamed_from} | {column.name}
    return found


def left_columns(contracts: Iterable[tuple[Contract, Collection[str]]]) -> set[str]:
    """Return the columns that the row table has from earlier contracts, and that the last one does not have.

    Each contract comes with the columns that were dropped when it was applied, the first one first.
    """
    there, own = set[str](), set[str]()
    for contract, dropped in contracts:
        there, own = _columns_after(there, contract, dropped), {column.name for column in contract.row_table.columns}
    return there - own


def repeated(applied: Iterable[tuple[int, str, Contract, Collection[str]]], again: str) -> list[int]:
    """Return the numbers of the applications of the contract `again`, a digest, that can be deleted from the log once
    it is applied again: each changed no column of the row table, and neither did any after it.

    `applied`: number, digest, contract and dropped columns of each application under which the row table had the
    disposition of that contract, in order.
    """
    there, found = set[str](), list[int]()
    for number, digest, contract, dropped in applied:
        after = _columns_after(there, contract, dropped)
        if dropped or after != there:
            found.clear()
        elif digest == again:
            found.append(number)
        there = after
    return found


def _columns_after(there: set[str], contract: Contract, dropped: Collection[str]) -> set[str]:
    """Return the columns of a row table that had those in `there`, once the contract is applied."""
    columns, kept = contract.row_table.columns, there.difference(dropped)
    return kept.difference(renames(columns, kept)) | {column.name for column in columns}
