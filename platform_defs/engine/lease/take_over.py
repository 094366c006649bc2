"""The takeover of a pipeline by a run, and the state of the run before: ended by itself, alive, or dead."""

from typing import Any
from uuid import UUID

import psycopg

from platform_defs.errors import Fenced, Halt, LedgerAway, PipelineHeld
from platform_defs.errors.error_policy import TRIES
from platform_defs.errors.halts import KeepsFailing, read_detail
from platform_defs.ledger.migrations import require_current
from platform_defs.postgres.connection import LOCK_WAIT, Connection, application_name, queries


def take_over(
    connection: Connection, name: str, owner: UUID, run_id: str | None, *, unless_held: bool
) -> tuple[int, KeepsFailing | None]:
    """Lock the pipeline's row and take epoch + 1; waits for a publication in flight, ends a stopped one. Return the
    epoch, and the reason to halt at once, if the batch has ended as many runs as are tried.

    An owner still recorded, without a session, did not end by itself. Its pending batch has then failed, unless
    Postgres restarted in the meantime. Fencing a live owner is no death, nor is a fence by a migration, a settlement,
    an adoption or an applied contract: they leave no owner.
    """
    key = {"pipeline": name, "owner": owner, "run_id": run_id}
    connection.execute(queries()["register_pipeline"], key)
    alive: UUID | None = None  # its sessions are ended here, since it has locked the row
    try:
        epoch, halt, fenced = _take(connection, {**key, "alive": alive}, unless_held=unless_held)
    except psycopg.errors.LockNotAvailable as error:
        _refuse_replacing(connection, name, error)
        (alive,) = connection.execute(queries()["current_owner"], key).fetchone() or (None,)
        end_sessions(connection, name, alive)
        try:
            epoch, halt, fenced = _take(connection, {**key, "alive": alive}, unless_held=unless_held)
        except psycopg.errors.LockNotAvailable as again:
            _refuse_replacing(connection, name, again)
            raise LedgerAway(
                f"the ledger's row of {name} stayed locked for {LOCK_WAIT} twice; pg_locks shows by which session"
            ) from again
    end_sessions(connection, name, fenced)
    return epoch, halt


def refuse_held(connection: Connection, name: str) -> None:
    """Raise PipelineHeld if the pipeline's owner is alive."""
    row = connection.execute(queries()["held_by"], {"pipeline": name}).fetchone()
    if row is not None:
        who = f"run {row[0]}" if row[0] else "a run that Dagster did not start"
        raise PipelineHeld(
            f"{name} is in use by {who}, whose process is still running. Nothing was changed. Wait until it ends, or "
            "stop it."
        )


def end_sessions(connection: Connection, pipeline: str, owner: UUID | None) -> None:
    if owner is not None:
        connection.execute(queries()["end_sessions"], {"application_name": application_name(pipeline, owner)})


def _take(
    connection: Connection, key: dict[str, Any], *, unless_held: bool
) -> tuple[int, KeepsFailing | None, UUID | None]:
    """Try once to take over. Return the epoch, the reason to halt, and the owner before."""
    name: str = key["pipeline"]
    with connection.transaction():
        row = connection.execute(queries()["lock_pipeline"], key).fetchone()
        if row is None:  # registered before; only the pipeline that builds a replay is ever deleted
            raise Fenced(f"{name} was discarded in the meantime; nothing was changed")
        _, fenced, state, code, detail, failures, run_id = row
        if state == "halted":
            raise Halt(name, read_detail(code, detail), "an earlier run halted it, and it has not been resolved.")
        if unless_held:
            refuse_held(connection, name)  # again, now that no other run can take it
        epoch, now = connection.execute(queries()["take_over"], key).fetchone() or (0, 0)
        require_current(connection)  # a migration that was in progress has fenced this run, or is seen here
    if now <= failures or now < TRIES:  # the run before ended by itself, or the batch is tried again
        return epoch, None, fenced
    run = f"run {run_id}" if run_id else "a run that Dagster did not start"
    halt = KeepsFailing(
        now,
        "RunDied",
        f"the process that ran this batch died without reporting a reason ({run}): it was killed, ran out of "
        "memory, or crashed together with Postgres. Check the logs of the run, the kernel (out of memory) and "
        "Postgres. Give the run more memory, or correct the messages, transform or table that cause the crash",
    )
    return epoch, halt, fenced


def _refuse_replacing(connection: Connection, name: str, error: psycopg.Error) -> None:
    if connection.execute(queries()["replacing"], {"pipeline": name}).fetchone() == (True,):
        raise LedgerAway(
            f"a replay of {name} is being put in place; the next run can start once that is done"
        ) from error
