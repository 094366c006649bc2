"""The queries of `tidegate doctor`: the server's settings, the ledger, Dagster's daemons. Reads only."""

import time
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from psycopg.rows import dict_row

from platform_defs.doctor.findings.postgres import LedgerState, Vitals
from platform_defs.errors import BadInput
from platform_defs.ledger.migrations import version
from platform_defs.postgres.connection import Connection, connect, database_errors, queries
from platform_defs.settings.tls import address_of


@dataclass(frozen=True)
class PostgresLook:
    """The results from one connection. `heartbeats`: seconds since each Dagster daemon's last heartbeat; None if this
    role may not read them.
    """

    vitals: Vitals
    ledger: LedgerState
    heartbeats: dict[str, float] | None


def look(url: str, seconds: float = 3.0) -> PostgresLook:
    """Query the server at `url`; connecting, and each statement, take at most `seconds`.

    Raises LedgerAway if it does not answer or is a standby, BadInput if it refuses the role.
    """
    settings = {"statement_timeout": f"{seconds:g}s", "lock_timeout": f"{seconds:g}s"}
    with connect(_impatient(url, seconds), settings=settings) as connection, database_errors():
        row = _row(connection, "server_vitals")
        vitals = replace(
            Vitals(
                **{name: value for name, value in row.items() if name != "clock"}, behind=row["clock"] - time.time()
            ),
            unprotected=address_of(url).unprotected,
        )
        return PostgresLook(vitals, _ledger(connection), _heartbeats(connection))


def heartbeats(url: str, seconds: float = 3.0) -> dict[str, float] | None:
    """Return the heartbeats from a Dagster storage in its own database. Raises as `look` does."""
    with connect(_impatient(url, seconds)) as connection, database_errors():
        return _heartbeats(connection)


def _impatient(url: str, seconds: float) -> str:
    if "connect_timeout" in dict(parse_qsl(url.partition("?")[2])):
        return url
    return f"{url}{'&' if '?' in url else '?'}connect_timeout={max(2, round(seconds))}"  # libpq takes no less than 2


def _ledger(connection: Connection) -> LedgerState:
    try:
        found = version(connection)
    except BadInput as refused:
        return LedgerState((), refused=str(refused))
    if found is None:
        return LedgerState(None)
    return LedgerState(found.missing, found.unknown, **_row(connection, "ledger_rights"))


def _heartbeats(connection: Connection) -> dict[str, float] | None:
    found = _row(connection, "may_read_heartbeats")
    if not found:
        return {}
    if not found["readable"]:
        return None
    return dict(connection.execute(queries()["daemon_heartbeats"]).fetchall())


def _row(connection: Connection, name: str) -> dict[str, Any]:
    found = connection.cursor(row_factory=dict_row).execute(queries()[name]).fetchone()
    return found or {}
