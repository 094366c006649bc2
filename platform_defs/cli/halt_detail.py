"""The detail of a halt for a person, as `tidegate resolve` and `tidegate plan` print it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from platform_defs.cli.output import print_fields, print_line, print_table


def print_halt_detail(detail: Mapping[str, Any]) -> None:
    """Print the facts of a halt, then a table of each list of objects, such as samples: an object is a row. Names stay
    as they are in messages, contracts and the ledger.
    """
    tables = {name: rows for name, value in detail.items() if (rows := _objects(value))}
    print_fields({name: _lines(value) for name, value in detail.items() if name not in tables})
    for name, rows in tables.items():
        print_line(f"{name}:")
        if any(isinstance(value, Mapping | list | tuple) for row in rows for value in row.values()):
            for row in rows:
                print_halt_detail(_flat(row))
            continue
        columns = list(dict.fromkeys(column for row in rows for column in row))
        print_table(columns, [[row.get(column) for column in columns] for row in rows])


def one_line(value: Any) -> Any:
    """Return a list or an object as text in one line; any other value as it is."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return ", ".join(f"{name} {_or_dash(one_line(item))}" for name, item in members.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(_or_dash(one_line(item))) for item in cast("Sequence[Any]", value))
    return value


def _lines(value: Any) -> Any:
    """Return an object with a line for each of its members; any other value in one line."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name} {one_line(item)}" for name, item in cast("Mapping[str, Any]", value).items())
    return one_line(value)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list of nothing else; none for any other value."""
    items = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
    return [*items] if all(isinstance(item, Mapping) for item in items) else []


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with the members of its objects in their place: of a failed check, what it observed."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {name: value}
    return flat


def _or_dash(value: Any) -> Any:
    return "-" if value is None else value
