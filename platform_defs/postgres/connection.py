"""Postgres connections: UTC, named after their owner, and their errors as the project's own."""

import logging
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, LiteralString, Self, cast
from urllib.parse import parse_qsl, quote, urlencode
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.abc import Query
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from psycopg.rows import Row, dict_row
from typing_extensions import override

from platform_defs.contract.model.classified import NOT_SHOWN
from platform_defs.contract.redaction import unexpected
from platform_defs.errors import BadInput, InternalError, LedgerAway, RowRefused, TidegateError, error_policy, quoting
from platform_defs.errors.error_policy import ErrorPolicy, Place
from platform_defs.postgres.pooling import PROTOCOL, require_session_mode
from platform_defs.postgres.session import session_settings, statement
from platform_defs.settings.settings import settings
from platform_defs.settings.tls import tls_remedy

logging.getLogger("psycopg").setLevel(logging.ERROR)  # below, it logs Postgres' refusals: possibly with a row
Connection = psycopg.Connection[tuple[Any, ...]]
PACKAGE = Path(__file__).parents[1]  # each feature's folder has its own statements, in .sql files
LOCK_WAIT = "30s"  # longer than a publication takes; a session that locks a pipeline's row for longer is ended
# Milliseconds for which a connection may deliver nothing and acknowledge nothing before both its ends give it up.
SILENCE = 30_000
# A batch has happened when COMMIT is answered: a role or server that answers before the disk does is overruled.
DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"


def lock_timeout(wait: str) -> sql.Composed:
    """Return the statement that limits the wait for any one lock (`wait`, such as 2s) in this transaction."""
    return sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(wait))


def application_name(pipeline: str, owner: UUID) -> str:
    """Return the name of a run's sessions, by which a later run and the sensor find them (63 bytes at most)."""
    return f"tidegate/{pipeline[:20]}/{owner.hex}"


def connect(
    url: str, name: str = "tidegate", settings: Mapping[str, str] | None = None
) -> psycopg.Connection[tuple[Any, ...]]:
    """Open an autocommit connection in UTC; transactions are opened explicitly. Raises LedgerAway, and BadInput behind
    a pooler that is not in session mode (pooling.py).

    `settings` are Postgres' own, for this session; the default ones are in session.py.
    """
    with database_errors():
        address = session_url(url, name)
        connection = psycopg.connect(address, autocommit=True, prepare_threshold=None, cursor_factory=_NamingCursor)
        try:
            prepared = session_settings(address, settings)
            ours = statement(prepared, pid=connection.info.backend_pid).encode()
            if (
                connection.execute(ours).fetchone() is None
            ):  # behind a pooler, which reports a process that is not there
                require_session_mode(session_url(url, "tidegate/pooler"))
                connection.execute(statement(prepared).encode())
        except BaseException:
            connection.close()
            raise
        return connection


class _NamingCursor(psycopg.Cursor[Row]):
    """A cursor that notes in an error which statement Postgres refused (`refused_by_owner`)."""

    @override
    def execute(self, query: Query, *arguments: Any, **options: Any) -> Self:
        try:
            return super().execute(query, *arguments, **options)
        except psycopg.Error as error:
            error.add_note(_named(query))
            raise


def _named(query: Query) -> str:
    """Return the name of a statement of sql/, or the beginning of another one up to its first value."""
    text = query.as_string() if isinstance(query, sql.Composable) else query
    text = text.decode() if isinstance(text, bytes) else str(text)
    if named := re.match(r"-- ([\w.]+): ", text):
        return named[1]
    return re.split(r"[('\n]| AS | IS | DEFAULT | SET | USING | VALUES | WHERE ", text)[0].strip()


def session_url(url: str, name: str) -> str:
    """Return `url` with our connection options: its name, a server that can be written to, and time limits (`limited`).
    The settings after it is open: `session_statement`.
    """
    given = conninfo_to_dict(limited(url))
    return make_conninfo("", **{"target_session_attrs": "read-write", **given, "application_name": name})


def session_statement(url: str, name: str, settings: Mapping[str, str] | None = None) -> str:
    """Return the statement with our session settings, for a library that opens its connections itself; it sets the name
    as well, for one that reuses a connection. `settings`: as for `connect`.
    """
    return statement(session_settings(session_url(url, name), {"application_name": name, **(settings or {})}))


def session_uri(url: str, name: str) -> str:
    """Return `session_url` as a URI, for a library that takes nothing else."""
    given = conninfo_to_dict(session_url(url, name))
    return f"postgresql:///?{urlencode(given, quote_via=quote)}"


def session_environment(url: str, name: str) -> dict[str, str]:
    """Return `session_url` as libpq's environment variables, since other users see the arguments of a process. Options
    that have no variable are left out if they only limit waiting; raises BadInput for any other.
    """
    variables = {option.keyword.decode(): option.envvar for option in Conninfo.get_defaults()}
    found = dict[str, str]()
    for keyword, value in conninfo_to_dict(session_url(url, name)).items():
        if (variable := variables.get(keyword)) is not None:
            found[variable.decode()] = str(value)
        elif not keyword.startswith(("keepalives", "tcp_user_timeout", "fallback_application_name")):
            raise BadInput(
                f"{keyword} in TIDEGATE_POSTGRES_URL has no environment variable for psql; call psql yourself"
            )
    return found


def connect_alive(url: str, name: str, settings: Mapping[str, str] | None = None) -> Connection:
    """Open a session that shows `name` to be alive, for as long as it lasts: by a lock, which every role may see, and
    which ends with the session. Several sessions may show the same name. Raises as `connect` does.
    """
    connection = connect(url, name, settings)
    try:
        with database_errors():
            connection.execute(queries()["show_alive"], {"name": name})
    except BaseException:
        connection.close()
        raise
    return connection


def limited(url: str) -> str:
    """Return `url` (a URI) with a time limit to connect and one for a dead connection, unless it has its own.

    The latter is libpq's `tcp_user_timeout` (ms); keepalives detect an idle connection that is dead in that time.
    """
    given = dict(parse_qsl(url.partition("?")[2]))
    silence = int(given.get("tcp_user_timeout", 0)) or SILENCE
    limits = {
        "connect_timeout": 10,
        "tcp_user_timeout": silence,
        "keepalives_idle": max(1, silence // 2_000),
        "keepalives_interval": max(1, silence // 6_000),
        "keepalives_count": 3,
    }
    missing = urlencode({name: value for name, value in limits.items() if name not in given})
    return f"{url}{'&' if '?' in url else '?'}{missing}"


@contextmanager
def database_errors(place: Place = "ledger") -> Generator[None]:
    """Raise Postgres' refusals as our errors (`as_ours`), for statements of this `place`."""
    try:
        yield
    except psycopg.Error as error:
        raise as_ours(error, place) from error


def as_ours(error: psycopg.Error, place: Place = "ledger") -> TidegateError:
    """Return the project's error for `error`, with Postgres' message; in its `redacted`, with the names in it."""
    # The connection ended with two errors, Postgres' and the pooler's before it. psycopg, which expects one, then
    # reports that it "received 2 results from command 'BEGIN'".
    if isinstance(error, psycopg.InternalError) and " results from command " in str(error):
        return error_for_sqlstate(None, f"the connection has ended ({error})", place)
    state = state_of(error)
    if state is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return unexpected(partial(InternalError.of, "a statement for Postgres"), error)  # psycopg itself refuses it
    if place == "ledger" and refused_by_owner(error):
        return quoting(partial(_owners_refusal, error), str(error.diag.message_primary), refusal(error))
    return quoting(lambda text: error_for_sqlstate(state, text, place), str(error).strip(), refusal(error))


def refused_by_owner(error: psycopg.Error) -> bool:
    """Return True if code of the database's owner has raised `error` in a statement that writes no row of a message: an
    event trigger, a trigger, or a hook. RAISE may take any SQLSTATE.
    """
    state = error.sqlstate or ""
    if error.diag.source_function == "exec_stmt_raise" and _routine(error) != "inline_code_block":  # ours has no name
        return error_policy.of_sqlstate(state) in (ErrorPolicy.BUG, ErrorPolicy.BAD_INPUT)
    return state[:2] in _RAISED


_RAISED = ("P0", "2F", "38", "39")  # the classes of errors from routines


def _routine(error: psycopg.Error) -> str | None:
    """Return the PL/pgSQL function that raised the error, as Postgres prints it: schema.name(argument types)."""
    found = re.match(r"PL/pgSQL function (.+?) line ", error.diag.context or "")
    return found[1] if found else None


def _owners_refusal(error: psycopg.Error, message: str) -> BadInput:
    statement, routine = next(iter(getattr(error, "__notes__", ())), "a statement"), _routine(error)
    refuser = f"the function {routine}" if routine else "a trigger, an event trigger or a hook"
    return BadInput(
        f"Postgres refuses {statement}: {message} (SQLSTATE {error.sqlstate}). The database's owner decides this, by "
        f"{refuser}. {_ALLOW}"
    )


# The first line of an error of these classes is Postgres' own and quotes no value; a function's RAISE may take any.
_PLAIN = ("08", "25", "28", "3D", "40", "53", "55", "57", "58", "72")
_NO_RIGHT = "42501"  # insufficient_privilege
_RAISED_IN = "pl_exec.c"  # Postgres' file that raises the errors of PL/pgSQL functions
_NAMED = {"constraint": "constraint_name", "column": "column_name", "table": "table_name", "type": "datatype_name"}


def refusal(error: psycopg.Error) -> str:
    """Return the names in Postgres' message. The rest may quote the row (Failing row contains ..., Key (email)=(...)
    already exists, invalid input syntax for ..., whatever a trigger raises).
    """
    diag, state = error.diag, error.sqlstate
    if state is None:
        return str(error).strip()
    if state[:2] in _PLAIN and _RAISED_IN not in (diag.source_file or ""):
        return str(diag.message_primary)
    if state == _NO_RIGHT and diag.context is None:  # of the statement itself, so what it names is in the statement
        return str(diag.message_primary)
    names = "".join(f", {word} {name}" for word, of in _NAMED.items() if (name := getattr(diag, of)))
    return f"{_error_class(state)}{names}; the rest of the Postgres message {NOT_SHOWN}"


def state_of(error: BaseException) -> str | None:
    """Return the SQLSTATE; None if there was no connection, or none any more. A pooler reports that as a protocol
    violation, whatever has happened (Postgres is away, the pool is full): Postgres itself names a place in its source.
    """
    state: str | None = getattr(error, "sqlstate", None)
    by_pooler = state == PROTOCOL and isinstance(error, psycopg.Error) and error.diag.source_function is None
    return None if by_pooler else state


def error_for_sqlstate(state: str | None, message: str, place: Place) -> TidegateError:
    """Return the project's error for this SQLSTATE. `message`: Postgres' own for a statement of `place`."""
    match error_policy.of_sqlstate(state, place):
        case ErrorPolicy.REFUSED_ROW:
            return RowRefused(message, error_class=_error_class(state))
        case ErrorPolicy.BAD_INPUT:
            remedy = _REMEDY.get(state or "") or (_ALLOW if (state or "")[:2] in _RAISED else _SETUP)
            return BadInput(f"Postgres refuses: {message} (SQLSTATE {state}). {remedy}")
        case ErrorPolicy.BUG:
            return InternalError.of("a statement for Postgres", f"{message} (SQLSTATE {state})")
        case _:
            return LedgerAway(
                f"Postgres: {message} (SQLSTATE {state or 'none: no connection'}).{tls_remedy(message)}"
                + ("" if state else f" {settings().postgres_advice}"),
                sqlstate=state,
            )


_SETUP = "Correct the table, the contract or the database so that they match"
_ALLOW = "Ask the owner to allow the statement"
_REMEDY = {
    "42501": (
        "Ask the owner to grant the missing right to the database user (GRANT ... TO ...). If the table has "
        "row-level security, exempt the user from it (ALTER ROLE ... BYPASSRLS). tidegate rights prints every grant"
    ),
    "54011": "A table has at most 1,600 columns, and columns that were dropped count until the table is created again",
}


def _error_class(state: str | None) -> str:
    try:
        return psycopg.errors.lookup(state or "").__name__
    except KeyError:  # an extension's own code
        return f"Sqlstate{state}"


@cache
def queries() -> Mapping[str, LiteralString]:
    """Return the statements of sql/queries/*.sql by name. Each begins with `-- name: its purpose`."""
    text = "\n".join(path.read_text() for path in sorted(PACKAGE.glob("*/*.sql")))
    parts = re.split(r"^-- (\w+): ", text, flags=re.MULTILINE)
    return {
        name: cast("LiteralString", "-- " + text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def dict_rows(connection: Connection, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a named statement of sql/ (`queries`), each by column name. Raises psycopg.Error."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries()[query], parameters).fetchall()
