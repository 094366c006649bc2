"""The classified fields and columns of a pipeline: their values are shown in no error, sample, log or command.

This is the one definition. A classification counts unless it is a word that means the opposite (`OPEN`): `pii`,
`secret` or any other word means that others should not read the value.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, cast

from platform_defs.contract.model.contract import BatchRule, Column, Contract, Field, Table

OPEN = ("public", "open", "internal", "unclassified")
_PLACES = ("_partition", "_offset", "_batch_id")
HIDDEN = "(hidden)"  # in place of a classified value
NOT_SHOWN = "may quote classified values, and is not shown"  # ends the sentence in place of a hidden text


def is_classified(classification: str) -> bool:
    """Return True if values of fields or columns with this classification are not shown."""
    return classification.strip().casefold() not in ("", *OPEN)


@dataclass(frozen=True)
class Classified:
    """The classified fields of a contract and, by the table's name, its columns."""

    fields: frozenset[str]
    columns: frozenset[tuple[str, str]]  # table, column
    others: frozenset[tuple[str, str]]  # the columns that are not classified

    @property
    def any(self) -> bool:
        """True if anything is classified: then no excerpt of a message, no key and no text from others is shown."""
        return bool(self.fields or self.columns)

    @property
    def names(self) -> frozenset[str]:
        """The names of the fields, and schema.table.column of each column."""
        return self.fields | {f"{table}.{column}" for table, column in self.columns}

    def hides(self, table: str, column: str) -> bool:
        """Return True if values of the column are not shown. If anything is classified, the message's key and columns
        that the contract does not know are not shown either.
        """
        return self.any and column not in _PLACES and (table, column) not in self.others

    def of_table(self, table: Table) -> frozenset[str]:
        """Return the table's columns that are not shown, including the message's key if it has one."""
        return frozenset(name for name in (*(c.name for c in table.columns), "_key") if self.hides(table.name, name))


NOTHING = Classified(frozenset(), frozenset(), frozenset())


def classified(contract: Contract) -> Classified:
    """Return what is classified by its own word, or by the origin of its values.

    A field is classified also if the column of its name is, or if one of the two values contains the other. A column is
    classified also if the field of its name is; if no field has its name, so that a transform makes it, it is
    classified if any field is, unless the column itself has an open classification. A column of an accumulate table is
    classified if the column that it sums up or groups by is.
    """
    fields = _fields(contract)
    columns = set[tuple[str, str]]()
    for table in contract.tables:
        made = (
            _accumulated(contract, table, columns)
            if table.disposition == "accumulate"
            else _row_columns(contract, fields)
        )
        columns |= {(table.name, name) for name in made}
    every = {(table.name, column.name) for table in contract.tables for column in table.columns}
    return Classified(frozenset(fields), frozenset(columns), frozenset(every - columns))


def shown_from_now_on(before: Contract, after: Contract) -> Iterator[Field]:
    """Yield the fields of a later contract that show a value which the earlier one hides: the value of a field that was
    classified, one that contains it, or a part of one that was classified itself.
    """
    was, now = classified(before), classified(after)
    hidden = [field for field in before.message_fields if field.name in was.fields]
    whole = _sources(before)
    for item in after.message_fields:
        if item.name not in now.fields and (
            any(_contains(item, field) for field in hidden) or any(_contains(field, item) for field in whole)
        ):
            yield item


def classified_by(others: Iterable[Contract], contract: Contract) -> frozenset[str]:
    """Return the fields of a contract whose values other contracts of its topic classify."""
    fields = [item for other in others for item in other.message_fields if item.name in classified(other).fields]
    return frozenset(item.name for item in contract.message_fields if any(_share(item, other) for other in fields))


def _sources(contract: Contract) -> list[Field]:
    """Return the fields that are classified by their own word, or by that of the column of their name."""
    named = {column.name for table in contract.tables for column in table.columns if _own(column)}
    return [item for item in contract.message_fields if _own(item) or item.name in named]


def _fields(contract: Contract) -> set[str]:
    found = _sources(contract)
    return {item.name for item in contract.message_fields if any(_share(item, other) for other in found)}


def _row_columns(contract: Contract, fields: set[str]) -> Iterable[str]:
    names = {item.name for item in contract.message_fields}
    for column in contract.row_table.columns:
        made = column.name not in names and bool(fields) and not column.classification.strip()
        if _own(column) or column.name in fields or made:
            yield column.name


def _accumulated(contract: Contract, table: Table, columns: set[tuple[str, str]]) -> Iterable[str]:
    sources = {item.column: item.source for item in table.aggregates}
    for column in table.columns:
        source = sources.get(column.name, column.name)
        if _own(column) or (contract.row_table.name, source) in columns:
            yield column.name


def _own(item: Field | Column) -> bool:
    return is_classified(item.classification)


def _share(one: Field, other: Field) -> bool:
    """Return True if one value contains the other, in any of the places where writers have them."""
    return _contains(one, other) or _contains(other, one)


def _contains(outer: Field, inner: Field) -> bool:
    """Return True if the outer value contains the inner one, or is the same: that of a Protobuf number is."""
    if outer.number and (outer.number, outer.path[:-1]) == (inner.number, inner.path[:-1]):
        return True
    pairs = product((outer.path, *outer.aliases), (inner.path, *inner.aliases))
    return any(a == b[: len(a)] for a, b in pairs)


def names_any(rule: BatchRule, columns: Set[str]) -> bool:
    """Return True if an argument of the rule names one of the columns, at any depth."""
    return not columns.isdisjoint(_texts(rule.arguments))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_texts, cast("Mapping[str, Any]", value).values()))
    elif isinstance(value, Iterable):
        yield from chain.from_iterable(map(_texts, cast("Iterable[Any]", value)))
