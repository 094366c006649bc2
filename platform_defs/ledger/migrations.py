"""The ledger's schema by version: the numbered files of sql/migrations, each applied once, in order.

`migrate` applies them, when a run opens and by `tidegate migrate`. Everything else only reads: `reading` yields a
connection to a ledger that this version of Tidegate understands, or raises the reason why there is none.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_random

from platform_defs.errors import BadInput, LedgerAway, LedgerMissing, LedgerOutdated, LedgerTooNew
from platform_defs.postgres.connection import (
    Connection,
    connect,
    database_errors,
    lock_timeout,
    queries,
    refused_by_owner,
)
from platform_defs.postgres.tables import create_schema

SHORT_WAIT = "1s"  # for any one lock of a migration
PATIENCE = 60.0  # seconds for which a migration is tried
MIGRATIONS = Path(__file__).parent / "schema"
KNOWN = tuple(path.name for path in sorted(MIGRATIONS.glob("*.sql")))


@dataclass(frozen=True)
class LedgerVersion:
    """The migrations that a ledger has had, by file name, compared with those that this version of Tidegate knows."""

    applied: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The migrations known here and not applied: the ledger is older than the code."""
        return tuple(name for name in KNOWN if name not in self.applied)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The migrations applied and not known here: the ledger is newer than the code."""
        return tuple(name for name in self.applied if name not in KNOWN)

    def refuse_newer(self) -> None:
        """Raise LedgerTooNew if this version of Tidegate could misread the ledger."""
        if self.unknown:
            raise LedgerTooNew(
                f"the ledger is newer than this version of Tidegate (it has {', '.join(self.unknown)}). Upgrade "
                "Tidegate to the version that migrated the ledger"
            )


def migrate(url: str) -> tuple[str, ...]:
    """Create the ledger or upgrade it. Return the file names of the applied migrations; empty if it was up to date.

    One of several concurrent processes migrates, the others wait. Runs of the version before are fenced: they publish
    nothing more by its rules.

    A ledger that is up to date needs only the right to read it. Raises LedgerTooNew if a newer version of Tidegate
    migrated it, BadInput if the database's user may not change it or its encoding is not UTF8, LedgerAway; also if
    another session has locked a table of the ledger for longer than PATIENCE.
    """
    with connect(url, settings={"lock_timeout": SHORT_WAIT}) as connection, database_errors():
        return () if is_current(connection) else _in_turn(connection)


def is_current(connection: Connection) -> bool:
    """Return True if there is nothing to migrate. Raises LedgerTooNew, and BadInput as `migrate` does."""
    # Another encoding cannot store every text: it would refuse messages for their characters.
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise BadInput(
            f"the database {connection.info.dbname} has the encoding {encoding}, which cannot store every message "
            "text. Create a database with UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
            field="TIDEGATE_POSTGRES_URL",
        )
    found = version(connection)
    if found is None or found.missing:
        return False
    found.refuse_newer()
    return True


def _in_turn(connection: Connection) -> tuple[str, ...]:
    """Migrate, and retry while other sessions have the locks that it needs. Publications queue behind a lock that is
    waited for: hence short waits, with pauses between them.
    """

    def once() -> tuple[str, ...]:
        with _rights_explained(connection), connection.transaction():
            connection.execute(lock_timeout(SHORT_WAIT))
            return _migrate(connection)

    locked = retry_if_exception_type((psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected))
    retrying = Retrying(retry=locked, stop=stop_after_delay(PATIENCE), wait=wait_random(0.2, 1.0))
    try:
        return retrying(once)
    except RetryError as error:
        raise LedgerAway(
            f"the ledger could not be upgraded: for {PATIENCE:.0f} s other sessions held locks on its tables (a "
            "long query, a backup, or a run that was stopped; pg_locks shows which). Nothing was changed. To "
            "try again: tidegate migrate",
            sqlstate="55P03",
        ) from error


def version(connection: Connection) -> LedgerVersion | None:
    """Return the ledger's migrations, or None if the database has no ledger. Changes nothing.

    Raises BadInput if the database's user may not read the ledger.
    """
    with _rights_explained(connection):
        if connection.execute("SELECT to_regclass('tidegate.migration')").fetchone() == (None,):
            # A ledger whose migration list has another name is older than every version that this code knows.
            asked = "SELECT to_regclass('public.tidegate_migration'), to_regclass('tidegate.tidegate_migration')"
            return None if connection.execute(asked).fetchone() == (None, None) else LedgerVersion(())
        rows = connection.execute("SELECT name FROM tidegate.migration ORDER BY name").fetchall()
    return LedgerVersion(tuple(name for (name,) in rows))


@contextmanager
def reading(opened: AbstractContextManager[Connection]) -> Generator[Connection]:
    """Yield the connection (autocommit) from `opened`, to a ledger that this version of Tidegate understands.

    Raises LedgerMissing if there is none yet, LedgerOutdated or LedgerTooNew if it is another version's, and
    LedgerAway.
    """
    with opened as connection, database_errors():
        require_current(connection)
        yield connection


def require_current(connection: Connection) -> None:
    """Raise LedgerMissing, LedgerOutdated or LedgerTooNew unless the ledger is this version's."""
    found = version(connection)
    if found is None:
        raise LedgerMissing(
            f"the database {connection.info.dbname} has no ledger yet. The first run creates it. To create it now: "
            "tidegate migrate"
        )
    found.refuse_newer()
    if found.missing:
        raise LedgerOutdated(
            f"the ledger is older than this version of Tidegate (missing: {', '.join(found.missing)}). The next run "
            "upgrades it. To upgrade it now: tidegate migrate"
        )


def _migrate(connection: Connection) -> tuple[str, ...]:
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('tidegate migrations'))")
    if connection.execute("SELECT to_regclass('tidegate.migration')").fetchone() == (None,):
        for schema in ("tidegate", "tidegate_staging"):  # an administrator may have created them
            create_schema(connection, schema)
        # A ledger from before this table had its name keeps it.
        connection.execute("ALTER TABLE IF EXISTS public.tidegate_migration SET SCHEMA tidegate")
        connection.execute("ALTER TABLE IF EXISTS tidegate.tidegate_migration RENAME TO migration")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tidegate.migration (name text PRIMARY KEY, at timestamptz DEFAULT now())"
        )
    found = version(connection) or LedgerVersion(())  # read again under the lock: another process may have been first
    found.refuse_newer()
    for name in found.missing:
        connection.execute(f"-- {name}: its name in errors\n{(MIGRATIONS / name).read_text()}".encode())
        connection.execute("INSERT INTO tidegate.migration (name) VALUES (%s)", [name])
    if found.missing:
        connection.execute(queries()["fence_all"])
    return found.missing


@contextmanager
def _rights_explained(connection: Connection) -> Generator[None]:
    """Raise BadInput, which says who has to do what, if Postgres refuses for lack of a right: the
    database's owner grants, or the ledger's owner migrates.
    """
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        if refused_by_owner(error):
            raise
        user, database, message = connection.info.user, connection.info.dbname, str(error).strip()
        asked = "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'tidegate'"
        (owner,) = connection.execute(asked).fetchone() or (None,)
        remedy = (
            f"{user} may not create the ledger in {database} ({message}). As an administrator: GRANT CREATE, TEMPORARY "
            f'ON DATABASE "{database}" TO "{user}"; or, instead of CREATE, make it the owner of the schemas: CREATE '
            f'SCHEMA tidegate AUTHORIZATION "{user}", and the same for tidegate_staging'
        )
        if owner is not None and owner != user:
            remedy = (
                f"{user} may not read or upgrade the ledger in {database} ({message}), which belongs to {owner}. As "
                f"{owner}, run tidegate migrate, then execute the output of tidegate rights --owner {owner} "
                f"--publisher {user} (or, for read-only access, --reader {user})"
            )
        raise BadInput(remedy, field="TIDEGATE_POSTGRES_URL") from error
