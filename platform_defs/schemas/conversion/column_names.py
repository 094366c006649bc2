"""The names of columns for a schema's fields, and of pipelines and tables for its topic: lower case, and free."""

from collections.abc import Iterable

from platform_defs.contract.model.message_path import MessagePath
from platform_defs.contract.model.reserved import column_mistake, pipeline_mistake, table_mistake
from platform_defs.contract.reader.names import snake_case
from platform_defs.schemas.conversion.tree import unique

_LONGEST = 63  # bytes: Postgres cuts longer names
_ROOM = 4  # for a number behind it, or as much before it


def column_names(paths: Iterable[MessagePath]) -> dict[MessagePath, str]:
    """Return a name for each path: its keys in lower case, joined by _; with a number behind if that is taken."""
    found, taken = dict[MessagePath, str](), set[str]()
    for path in paths:
        name = unique(_column(path), taken.__contains__, "_")
        taken.add(name)
        found[path] = name
    return found


def pipeline_name(domain: str, name: str) -> str:
    """Return an id for the pipeline."""
    wanted = name if name == domain else f"{domain}_{name}"
    cut = wanted[: _LONGEST - 2 * _ROOM].rstrip("_")
    return cut if pipeline_mistake(cut) is None else f"topic_{cut}"


def table_name(domain: str, name: str) -> str:
    """Return a table in the schema named after the domain."""
    table = f"{domain}.{name}"
    return table if table_mistake(table) is None else f"of_{table}"


def plain_name(text: str, otherwise: str) -> str:
    """Return `text` as a name of lower-case letters, digits and _; `otherwise` if that leaves nothing."""
    return (snake_case(text) or snake_case(f"x {text}") or otherwise)[: _LONGEST - _ROOM].strip("_") or otherwise


def _column(path: MessagePath) -> str:
    name = snake_case(" ".join(path)) or snake_case(path[-1]) or snake_case(f"field {path[-1]}") or "field"
    cut = name[: _LONGEST - 2 * _ROOM].rstrip("_")
    return cut if column_mistake(cut) is None else f"{cut}_value"
