"""Findings about Postgres, the ledger in it, Dagster's daemon, and the clocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from platform_defs.doctor.findings.finding import Finding, Subject
from platform_defs.errors.words import noun_for, plural

ENOUGH = 20  # sessions left: a run and its Spark tasks have a dozen, Dagster's processes a few each
CLOCK_SECONDS = 2.0  # by which two clocks may differ; the check itself takes a part of it
HEARTBEAT_SECONDS = 300.0  # Dagster's daemons send a heartbeat every 30 s
RIGHTS = "tidegate rights prints every grant"
LEDGER_RIGHTS, LEDGER_VERSION = Subject("ledger", "rights"), Subject("ledger", "version")


@dataclass(frozen=True)
class Vitals:
    """The server's state, by doctor/doctor.sql. `behind`: seconds by which this machine's clock is behind the
    server's. `unprotected`: a sentence that says why the URL allows an unencrypted connection; None if it does not.
    """

    version: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    most_sessions: int
    sessions: int
    role_limit: int | None
    role_sessions: int
    encrypted: bool
    local: bool
    bytes: int
    behind: float
    role: str
    database: str
    may_create: bool
    unprotected: str | None = None


@dataclass(frozen=True)
class LedgerState:
    """The ledger: the migrations that are `missing` (None if there is no ledger), and those unknown here."""

    missing: Sequence[str] | None
    unknown: Sequence[str] = ()
    unreadable: Sequence[str] = ()
    unwritable: Sequence[str] = ()
    may_stage: bool = True
    refused: str | None = None  # why this role may not even ask; the rest is then unknown


def server(vitals: Vitals) -> Iterator[Finding]:
    """Yield the findings about the server itself."""
    size = f"{vitals.bytes / 1e9:.1f} GB" if vitals.bytes >= 1e9 else f"{vitals.bytes / 1e6:.0f} MB"
    yield Subject("postgres", "version").well(
        f"Postgres {vitals.version} answers; the size of the database {vitals.database} is {size}."
    )
    yield from _durability(vitals)
    yield _sessions(vitals)
    yield _encryption(vitals)


def _durability(vitals: Vitals) -> Iterator[Finding]:
    if vitals.fsync == "off":
        yield Subject("postgres", "fsync").error(
            "fsync is off: if the machine crashes, committed data is lost, and the database may be corrupt.",
            "Set fsync = on in postgresql.conf, and reload.",
        )
    if vitals.full_page_writes == "off":
        yield Subject("postgres", "full_page_writes").warning(
            "full_page_writes is off: a page that is half written when the machine crashes stays corrupt.",
            "Set full_page_writes = on, unless the file system writes pages atomically.",
        )
    if vitals.synchronous_commit == "off":
        yield Subject("postgres", "synchronous_commit").warning(
            "synchronous_commit is off. Tidegate turns it on for its own publications; other programs that write "
            "to this database may lose their last commits in a crash.",
            "Set synchronous_commit = on for the database or the role.",
        )
    if "off" not in (vitals.fsync, vitals.full_page_writes, vitals.synchronous_commit):
        yield Subject("postgres", "durability").well(
            "Commits are durable: fsync and full_page_writes are on, synchronous_commit is "
            f"{vitals.synchronous_commit}."
        )


def _sessions(vitals: Vitals) -> Finding:
    left = vitals.most_sessions - vitals.sessions
    whose, remedy = "max_connections", "Raise max_connections, or end unused sessions (pg_stat_activity lists them)."
    if vitals.role_limit is not None and vitals.role_limit - vitals.role_sessions < left:
        left = vitals.role_limit - vitals.role_sessions
        whose = f"the limit of the role {vitals.role}"
        remedy = f"Raise it: ALTER ROLE {vitals.role} CONNECTION LIMIT ..."
    message = f"{plural(max(0, left), 'more connection')} can be opened ({whose})"
    if left >= ENOUGH:
        return Subject("postgres", "connections").well(f"{message}.")
    return Subject("postgres", "connections").warning(
        f"{message}; a run, its Spark tasks and Dagster together need about {ENOUGH}.", remedy
    )


def _encryption(vitals: Vitals) -> Finding:
    if vitals.encrypted and vitals.unprotected and not vitals.local:
        return Subject("postgres", "tls").warning(
            "This connection is encrypted (TLS), but nothing guarantees that the next one is: "
            f"{vitals.unprotected.partition('. ')[0]}.",
            f"{vitals.unprotected.partition('. ')[2]}, to TIDEGATE_POSTGRES_URL.",
        )
    if vitals.encrypted:
        return Subject("postgres", "tls").well("The connection is encrypted (TLS).")
    if vitals.local:
        return Subject("postgres", "tls").well("The connection is not encrypted, and does not leave this machine.")
    return Subject("postgres", "tls").warning(
        "The connection to another machine is not encrypted: rows and the password can be read in transit.",
        "Add sslmode=verify-full (and sslrootcert) to TIDEGATE_POSTGRES_URL.",
    )


def ledger(state: LedgerState, vitals: Vitals) -> Iterator[Finding]:
    """Yield the findings about the ledger, and the role's rights on it."""
    if state.refused is not None:
        yield LEDGER_RIGHTS.error(f"The role {vitals.role} may not read the ledger.", state.refused)
        return
    if state.missing is None:
        yield _no_ledger(vitals)
        return
    yield _version(state)
    if state.unreadable:
        yield LEDGER_RIGHTS.error(
            f"The role {vitals.role} may not read {_tables(state.unreadable)} of the ledger.",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA tidegate TO {vitals.role}; ({RIGHTS}.)",
        )
    elif state.unwritable or not state.may_stage:
        what = _tables(state.unwritable) if state.unwritable else "the schema tidegate_staging"
        yield LEDGER_RIGHTS.warning(
            f"The role {vitals.role} may read the ledger but not write to {what}: read-only commands work, but "
            "runs fail.",
            f"Use a role for runs that may write (TIDEGATE_POSTGRES_URL), or grant this one the rights: {RIGHTS}.",
        )
    else:
        yield LEDGER_RIGHTS.well(f"The role {vitals.role} may read and write the ledger.")


def _no_ledger(vitals: Vitals) -> Finding:
    if vitals.may_create:
        return LEDGER_VERSION.well("There is no ledger yet; the first run creates it (or run tidegate migrate).")
    return LEDGER_VERSION.error(
        f"There is no ledger yet, and the role {vitals.role} may not create one.",
        f"GRANT CREATE ON DATABASE {vitals.database} TO {vitals.role}; or run tidegate migrate as a role that has it.",
    )


def _version(state: LedgerState) -> Finding:
    if state.unknown:
        return LEDGER_VERSION.error(
            f"A newer version of Tidegate has migrated the ledger ({', '.join(state.unknown)}).",
            "Use that version; this one will not run.",
        )
    if state.missing:
        return LEDGER_VERSION.warning(
            f"The ledger is older than this version of Tidegate: {', '.join(state.missing)} "
            f"{noun_for(len(state.missing), 'is', 'are')} missing.",
            "Run tidegate migrate, or let the next run migrate it.",
        )
    return LEDGER_VERSION.well("The ledger matches this version of Tidegate.")


def _tables(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{noun_for(len(names), 'the table', 'the tables')} {', '.join(names[:3])}{more}"


def daemon(heartbeats: Mapping[str, float] | None) -> Finding:
    """Return the finding about Dagster's daemons. `heartbeats`: seconds since each daemon's last heartbeat; empty if
    Dagster has never run here, None if this role may not ask.
    """
    subject = Subject("dagster", "daemon")
    if heartbeats is None:
        return subject.warning(
            "The last heartbeat of Dagster's daemon is unknown: this role may not read dagster.daemon_heartbeats.",
            f"GRANT USAGE ON SCHEMA dagster and SELECT ON dagster.daemon_heartbeats to it ({RIGHTS}).",
        )
    remedy = "Start it: tidegate ui up, or dagster-daemon run for your own Dagster."
    if not heartbeats:
        return subject.warning("Dagster's daemon has never run with this database: no runs are started.", remedy)
    oldest = min(heartbeats.values())
    if oldest > HEARTBEAT_SECONDS:
        return subject.warning(
            f"The last heartbeat of Dagster's daemon was {plural(round(oldest / 60), 'minute')} ago: no sensor or "
            "schedule starts a run.",
            remedy,
        )
    late = [name for name, seconds in heartbeats.items() if seconds > HEARTBEAT_SECONDS]
    if "SENSOR" in late:
        return subject.warning("Dagster's sensor daemon has no recent heartbeat: no sensor starts a run.", remedy)
    return subject.well(f"The last heartbeat of Dagster's daemon was {plural(round(oldest), 'second')} ago.")


def clock(behind: float, whose: str = "Postgres'") -> Finding:
    """Return the finding about this machine's clock against another."""
    if abs(behind) <= CLOCK_SECONDS:
        return Subject("clock", whose).well(f"This machine's clock and {whose} agree within two seconds.")
    return Subject("clock", whose).warning(
        f"This machine's clock is {abs(behind):,.0f} s {'behind' if behind > 0 else 'ahead of'} {whose}: displayed "
        "times, and waits after a failure, are off by that much.",
        "Synchronize both machines with NTP (timedatectl, chronyc tracking).",
    )
