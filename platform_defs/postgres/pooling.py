"""The check that a pooler keeps a server process for each of our sessions (session mode), as Tidegate needs it.

A session of ours has settings, locks that show that a run is alive, and a name by which it can be ended. In transaction
or statement mode a pooler gives its server process to another client after each transaction, with all of that on it.
"""

from contextlib import closing
from functools import cache
from typing import Any, LiteralString
from uuid import uuid4

import psycopg

from platform_defs.errors import BadInput

PROTOCOL = "08P01"  # the SQLSTATE of every pooler error, also when it ends a connection
# PgBouncer's message, under it, if statement mode refuses a transaction:
# https://github.com/pgbouncer/pgbouncer/blob/master/src/server.c
STATEMENT_MODE = "statement pooling mode"
LOOKS = 10  # attempts with two sessions, in case others take what the pooler has free
PATIENCE = 10.0  # seconds for a notification, which takes milliseconds
_PID: LiteralString = "SELECT pg_backend_pid()"


@cache
def require_session_mode(address: str) -> None:
    """Raise BadInput unless sessions at `address` (a connection string), behind a pooler, are Postgres' own sessions;
    psycopg.Error, with what happened, if a connection ends before that is known.

    Asked once in a process, and only if the server process differs from the one that the connection reports. Changes
    nothing in other clients' sessions. A server process that two sessions share while one of them is inside a
    transaction, or that changes under a session, proves transaction mode. A notification that reaches an idle session
    proves session mode: nothing reaches it otherwise.
    """
    with closing(_opened(address)) as one, closing(_opened(address)) as other:
        mine, _ = _asked(one, _PID), _asked(other, _PID)  # a full pool raises here
        if any(_share(one, other, mine) for _ in range(LOOKS)):
            raise _refused("two sessions were given the same server process of Postgres")
        if not _hears(one, other):
            raise _refused("a listening session does not receive a notification")
        left = uuid4().hex
        _asked(one, "SELECT set_config('tidegate.left', %s, false)", left)
    with closing(_opened(address)) as next_one:
        if _asked(next_one, "SELECT current_setting('tidegate.left', true)") == left:
            raise BadInput(
                "the pooler at TIDEGATE_POSTGRES_URL passes state from one session to the next (settings, locks): "
                "configure it to reset sessions (in pgbouncer.ini: server_reset_query = DISCARD ALL). Nothing was "
                "changed",
                field="TIDEGATE_POSTGRES_URL",
            )


def _share(one: psycopg.Connection[Any], other: psycopg.Connection[Any], mine: int) -> bool:
    """Return True if the server process of `one` is not its own while `other` is inside a transaction."""
    try:
        with other.transaction():
            return _asked(other, _PID) == mine or _asked(one, _PID) != mine
    except psycopg.OperationalError as error:
        if STATEMENT_MODE not in str(error):
            raise
        raise _refused(f"it rejects a transaction: {str(error).strip()}") from error


def _hears(one: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> bool:
    channel = f"tidegate_{uuid4().hex}"
    one.execute(f"LISTEN {channel}".encode())
    other.execute(f"NOTIFY {channel}".encode())
    return any(one.notifies(timeout=PATIENCE, stop_after=1))


def _asked(connection: psycopg.Connection[Any], query: LiteralString, *values: str) -> Any:
    (found,) = connection.execute(query, values or None).fetchone() or (None,)
    return found


def _opened(address: str) -> psycopg.Connection[Any]:
    return psycopg.connect(address, autocommit=True, prepare_threshold=None)


def _refused(found: str) -> BadInput:
    return BadInput(
        f"TIDEGATE_POSTGRES_URL leads to a pooler that shares sessions between transactions ({found}). Configure "
        "it to keep one session per client (in pgbouncer.ini: pool_mode = session, for this database or user), or "
        "use the address of Postgres itself. Nothing was changed",
        field="TIDEGATE_POSTGRES_URL",
    )
