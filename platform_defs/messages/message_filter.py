"""An SQL expression over Arrow columns, evaluated by DuckDB, that selects messages of a block.

docs/decisions/0036-duckdb.md explains why DuckDB, and the limits put on it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any, cast

import duckdb
import pyarrow as pa

from platform_defs.errors import BadInput
from platform_defs.formats.blocks.arrow import columns_of, counted, int64s

# An expression comes from a command line. It reads no file, no address and no extension, and changes no setting.
LOCKED: Mapping[str, str] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "threads": "1",
}
_PLACE = "_place"  # of a message in its block; fields' names do not begin with an underscore
_TABLE, _EVERY = "messages", "*"  # an expression may name the table for all of its columns
_NO_SELECT = "write one expression over columns, such as amount > 100, without SELECT"


class Where:
    """Selects messages by an SQL expression. One thread uses it."""

    def __init__(self, expression: str, schema: pa.Schema, hidden: Set[str], why_hidden: str) -> None:
        """Check the expression. `schema`: the columns that it may name. `hidden`: columns that it may not, and
        `why_hidden` as the end of a sentence. Raises BadInput for anything but an expression over these columns.
        """
        self._expression, self._columns = expression, schema.names
        self._session = duckdb.connect(":memory:", config=dict(LOCKED))
        self._session.execute("SET TimeZone = 'UTC'; SET lock_configuration = true")
        nodes = [*_walked(self._parsed())]
        named = (name for node in nodes if node.get("class") == "COLUMN_REF" for name in node["column_names"])
        self._named = {name.lower() for name in named}  # columns, with their qualifiers
        self._named |= {_EVERY for node in nodes if node.get("class") == "STAR"}
        if refused := sorted(name for name in hidden if name.lower() in self._named):
            raise self._refused(f"{refused[0]} {why_hidden}")
        self.places(pa.RecordBatch.from_pylist([], schema=schema))

    def uses(self, column: str) -> bool:
        """Return False if the expression's value does not depend on the column."""
        return column.lower() in self._named or _EVERY in self._named or _TABLE in self._named

    def places(self, messages: pa.RecordBatch) -> pa.Int64Array:
        """Return the positions at which the expression is true, ascending. Raises BadInput if it fails on a value."""
        columns: Any = [*columns_of(messages), counted(messages.num_rows)]
        block = pa.Table.from_arrays(columns, names=[*messages.schema.names, _PLACE])
        self._session.register(_TABLE, block)
        try:
            found = self._session.execute(f"SELECT {_PLACE} FROM {_TABLE} WHERE (\n{self._expression}\n)").fetchnumpy()
        except duckdb.Error as error:
            # Without its kind, and without the lines that show the statement around the expression.
            raise self._refused(re.sub(r"\A(\w+ )+Error: |\s*\n.*", "", str(error), flags=re.DOTALL)) from error
        finally:
            self._session.unregister(_TABLE)
        return int64s(found[_PLACE])

    def _parsed(self) -> Any:
        """Return the expression as DuckDB parses it, as JSON. Raises BadInput unless it is one expression."""
        statement = f"SELECT (\n{self._expression}\n)"
        ((document,),) = self._session.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
        parsed = json.loads(document)
        if parsed["error"]:
            raise self._refused(parsed["error_message"] if parsed["error_type"] == "parser" else _NO_SELECT)
        nodes = [statement["node"] for statement in parsed["statements"]]
        if len(nodes) != 1 or not _is_expression(nodes[0]):
            raise self._refused(_NO_SELECT)
        (expression,) = nodes[0]["select_list"]
        several = expression.get("function_name") == "row"  # a, b in parentheses
        if several or any(node.get("class") == "SUBQUERY" for node in _walked(expression)):
            raise self._refused(_NO_SELECT)
        return expression

    def _refused(self, why: str) -> BadInput:
        columns = ", ".join(self._columns)
        return BadInput(f"{why.rstrip('.!')}. The columns are {columns}", field="--where")


def _is_expression(node: Mapping[str, Any]) -> bool:
    """Return True for `SELECT (expression)` and nothing after it."""
    rest = ("where_clause", "having", "qualify", "sample")
    return (
        node["type"] == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and node["from_table"]["type"] == "EMPTY"
        and not any(node[name] for name in rest)
        and not node["group_expressions"]
        and not node["modifiers"]
    )


def _walked(document: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object of a JSON document, at any depth."""
    left = [document]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            found = cast("dict[str, Any]", node)
            yield found
            left += found.values()
        elif isinstance(node, list):
            left += cast("list[Any]", node)
