"""Postgres connections: UTC, named after their owner, and their errors in the project's own words."""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, LiteralString, cast
from urllib.parse import parse_qsl, quote, urlencode
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from platform_defs.errors import LedgerAway

Connection = psycopg.Connection[tuple[Any, ...]]
SQL = Path(__file__).parent / "sql"
# What a row itself makes Postgres say: SQLSTATE classes 22 and 23, and 54, a limit that a value exceeds (a key too long
# for its index, JSON nested too deep). The same row always says it again, so it is never retried.
ROW_ERRORS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
)
TRY_AGAIN = {"08", "40", "53", "55", "57"}  # connection, rollback, resources, not in the state, operator intervention
NOT_HERE = {"25006", "25P03"}  # a read-only server; a session that sat idle for longer than a server allows
LOCK_WAIT = "30s"  # longer than a publication takes; a session that holds a pipeline's row for longer is ended
# Milliseconds for which a connection may deliver nothing and acknowledge nothing before both its ends give it up.
SILENCE = 30_000
# Once COMMIT is answered, the batch has happened: a role or server that answers before the disk does is overruled.
DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"


def application_name(pipeline: str, owner: UUID) -> str:
    """What a run's sessions are called, so that a later run and the sensor can find them (63 bytes at most)."""
    return f"tidegate/{pipeline[:20]}/{owner.hex}"


def connect(
    url: str, name: str = "tidegate", settings: Mapping[str, str] | None = None
) -> psycopg.Connection[tuple[Any, ...]]:
    """An autocommit connection in UTC; a transaction is opened where one is meant. Raises LedgerAway.

    `settings` are Postgres' own, for this session.
    """
    with database_errors():
        return psycopg.connect(session_url(url, name, settings), autocommit=True, prepare_threshold=None)


def session_url(url: str, name: str, settings: Mapping[str, str] | None = None) -> str:
    """`url` with what every session of ours has: its name, UTC, and time limits (`limited`). The server keeps the
    limits too: otherwise it would hold the locks of a client that is gone for hours.
    """
    given = conninfo_to_dict(limited(url))
    theirs = {f"tcp_{key}": given[key] for key in given if key.startswith("keepalives_")}
    theirs["tcp_user_timeout"] = given["tcp_user_timeout"]
    own = {"TimeZone": "UTC", "idle_in_transaction_session_timeout": "0", **(settings or {})}
    options = " ".join([_options(theirs), str(given.pop("options", "")), _options(own)])
    return make_conninfo(
        "", **{"target_session_attrs": "read-write", **given, "options": options, "application_name": name}
    )


def session_uri(url: str, name: str) -> str:
    """What `session_url` gives as a URI, for a library that takes nothing else."""
    given = conninfo_to_dict(session_url(url, name))
    return f"postgresql:///?{urlencode(given, quote_via=quote)}"


def limited(url: str) -> str:
    """`url` (a URI) with a time limit to connect and one for a dead connection, where it has none of its own.

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


def _options(settings: Mapping[str, object]) -> str:
    return " ".join(f"-c {key}={value}" for key, value in settings.items())


@contextmanager
def database_errors() -> Generator[None]:
    """Errors of the connection, or for lack of resources, become LedgerAway; those of a row or of our SQL stay as they
    are.
    """
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and (state or "08")[:2] in TRY_AGAIN
        if lost or state in NOT_HERE:
            raise LedgerAway(
                f"Postgres: {str(error).strip()} (SQLSTATE {state or 'none: no connection'}). "
                "Nothing was published by this attempt; the next run will retry.",
                sqlstate=state,
            ) from error
        raise


@cache
def queries() -> Mapping[str, LiteralString]:
    """The statements of sql/*.sql (except the numbered migrations) by name. Each begins with `-- name: its purpose`."""
    text = "\n".join(path.read_text() for path in sorted(SQL.glob("[!0-9]*.sql")))
    parts = re.split(r"^-- (\w+): ", text, flags=re.MULTILINE)
    return {
        name: cast("LiteralString", "-- " + text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }
