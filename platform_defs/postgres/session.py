"""The settings of every session, set by one statement after it was opened.

Not by the startup parameter `options`: poolers refuse it, or drop it silently.
"""

import re
from collections.abc import Mapping

from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

# Postgres' own time limits, which a role, a database or a server may set (ALTER ROLE ... SET statement_timeout): the
# same fixed batch would fail by them again and again. 0: none. A server may not know the newer ones.
TIME_LIMITS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",  # PostgreSQL 14
    "transaction_timeout",  # PostgreSQL 17
)
# What a role, a database or a server may set for every session, and what would change the meaning of our texts,
# statements or transactions: https://www.postgresql.org/docs/current/runtime-config-client.html and
# https://www.postgresql.org/docs/current/runtime-config-compatible.html. The values are Postgres' own defaults, unless
# a comment says otherwise. docs/decisions/0023-sessions-behind-poolers.md lists what is left to the owner, and why.
FIXED = {
    "TimeZone": "UTC",  # the default is the server's zone
    "client_encoding": "UTF8",  # the default is the database's
    # texts of values, which clients parse, COPY takes and digests are made of
    "DateStyle": "ISO",  # the output. The order is left to the owner, whose triggers may read 01/02/2026 by it
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "array_nulls": "on",
    # texts of names, which are compared with a contract's types and tables
    "quote_all_identifiers": "off",
    # the meaning of statements
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "gin_fuzzy_search_limit": "0",  # otherwise a query returns a random share of the rows
    "restrict_nonsystem_relation_kind": "",  # rules are evaluated over a view. PostgreSQL 17
    # transactions: after a lock is granted, the statement sees what was committed meanwhile
    "default_transaction_isolation": "read committed",
    "exit_on_error": "off",  # a lock that is not available is no reason to end the session
    # no notice is read, and ADBC's libpq prints them
    "client_min_messages": "warning",  # the default is notice
}
_IN_OPTIONS = re.compile(r"(?:-c\s*|--)([\w.-]+)\s*=")


def session_settings(address: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of a session at `address` (a connection string with libpq's own limits): FIXED, no time
    limits except in `settings` or the address' `options`, and the server's patience with a client that is gone.
    """
    given = conninfo_to_dict(address)
    silence = {f"tcp_{key}": str(value) for key, value in given.items() if key.startswith("keepalives_")}
    own = {**dict.fromkeys(TIME_LIMITS, "0"), **silence, "tcp_user_timeout": str(given["tcp_user_timeout"])}
    theirs = {name.replace("-", "_").lower() for name in _IN_OPTIONS.findall(str(given.get("options", "")))}
    return {**{key: own[key] for key in own if key not in theirs}, **FIXED, **(settings or {})}


def statement(settings: Mapping[str, str], *, pid: int | None = None) -> str:
    """Return the statement that sets them and returns a row. With `pid`: in another server process, to which a pooler
    may have led it, it sets nothing and returns no row.
    """
    each = sql.SQL(", ").join(_set(name, value) for name, value in settings.items())
    condition = sql.SQL("" if pid is None else " WHERE pg_backend_pid() = {}").format(sql.Literal(pid))
    return sql.SQL("SELECT {}{}").format(each, condition).as_string(None)


def _set(name: str, value: str) -> sql.Composed:
    given = {"name": sql.Literal(name), "value": sql.Literal(value)}
    # Checked first: an older server does not know each of them.
    return sql.SQL(
        "CASE WHEN current_setting({name}, true) IS NOT NULL THEN set_config({name}, {value}, false) END"
    ).format(**given)
