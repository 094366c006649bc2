"""What a contract's columns were called before, and which columns of earlier contracts a table still has."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from platform_defs.contract.model import Column, Contract


def renames(columns: Sequence[Column], there: Collection[str]) -> Mapping[str, str]:
    """New names by old ones, in an order in which they can be given: `there` are the names that the table has.

    A column whose name the table has is renamed only once another rename has freed that name: what it was called
    before may be written in the contract for as long as one likes.
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
    """The columns that the row table has from earlier contracts, and that the last one does not have.

    Each contract comes with the columns that were dropped when it was applied, the first one first.
    """
    there, own = set[str](), set[str]()
    for contract, dropped in contracts:
        columns = contract.row_table.columns
        there, own = there.difference(dropped), {column.name for column in columns}
        there = there.difference(renames(columns, there)) | own
    return there - own
