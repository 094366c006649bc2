"""`--fill channel=unknown`: the value of a new column for rows that existed before it."""

import json
from collections.abc import Iterable
from datetime import date
from typing import Any, cast

from platform_defs.contract.evolution.statements import literal
from platform_defs.contract.model.column_types import ColumnType
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.values import contract_value
from platform_defs.errors import BadInput

_READ = {"integer": int, "double": float, "boolean": json.loads, "json": json.loads, "array": json.loads}


def fills(contract: Contract, given: Iterable[str]) -> dict[str, str]:
    """Return by column the value as an SQL literal. Raises BadInput for a text that is not column=value, or not of its
    type.
    """
    types = {column.name: column.type for table in contract.tables for column in table.columns}
    found = dict[str, str]()
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in types:
            known = ", ".join(types)
            what = f"write COLUMN=VALUE, such as channel=unknown, instead of {text!r}; the columns are {known}"
            raise BadInput(what, field="--fill")
        found[name] = literal(_written(name, value, types[name]))
    return found


def _written(name: str, value: str, of: ColumnType) -> str:
    """Return the value as Postgres reads it."""
    try:
        read = contract_value(_READ.get(of.kind, str)(value), of)
    except ValueError as wrong:
        raise BadInput(f"{name} is {of.name}: {wrong}", field="--fill") from wrong
    if "\0" in str(read):
        raise BadInput(f"{name}: Postgres stores no NUL character", field="--fill")
    return _text(read)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return array_literal(map(_text, cast("tuple[Any, ...]", value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return rf"\x{value.hex()}"
    return value.isoformat() if isinstance(value, date) else str(value)


def array_literal(texts: Iterable[str]) -> str:
    """Return a Postgres array literal of these elements. Every element is quoted, so that none is read as NULL.

    https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
    """
    return "{" + ",".join(map(_quoted, texts)) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
