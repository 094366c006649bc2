"""Records what ended a run in the ledger: a Halt as one, any other error as a pause before the next run.

Retries are limited, unless a system is unavailable: platform_defs/errors/error_policy.py has the limit.
"""

from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.lease.pauses import LONG, SHORT, SUSPECTED, Counts
from platform_defs.errors import (
    AccessDenied,
    Fenced,
    Halt,
    LedgerAway,
    MessagesSuspected,
    OutcomeUnknown,
    Retryable,
    TidegateError,
    error_policy,
)
from platform_defs.errors.error_policy import TRIES, ErrorPolicy
from platform_defs.errors.halts import KeepsFailing
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.excerpt import printable

SESSION_ENDED = "57P01"  # admin_shutdown: by pg_terminate_backend, or since the server stops


def record_failure(pipeline: str, ledger: PostgresLease, error: TidegateError) -> None:
    """Record in the ledger what ended a run. Raises Fenced if another run took over, and Halt `keeps_failing`."""
    outcome_unknown = isinstance(error, OutcomeUnknown)
    if not outcome_unknown and ledger.fenced():  # its sessions were ended and its staging swept: that is why it failed
        raise Fenced.taken_over(pipeline) from error
    if isinstance(error, Halt):
        ledger.halt(error.detail)
        return
    policy = error_policy.of_error(error)
    pause = SHORT if isinstance(error, Retryable | AccessDenied) else LONG
    if isinstance(error, MessagesSuspected):
        pause = SUSPECTED
    try:  # how often in a row the pending batch has failed
        tries = ledger.back_off(str(error), pause, counts=_counts(error, policy))
    except TidegateError:  # Postgres is unavailable: `error` is what matters
        tries = 0
    if (tries >= TRIES and not outcome_unknown) or policy is ErrorPolicy.HALT:
        message = printable(str(error))  # it may quote a message, and Postgres stores no NUL
        times = plural(tries, "time")
        halt = Halt(
            pipeline,
            KeepsFailing(tries, type(error).__name__, message),
            f"the same batch has failed {times} in a row; nothing from it was published. The last error: {message}",
        )
        ledger.halt(halt.detail)
        raise halt from error


def _counts(error: TidegateError, policy: ErrorPolicy) -> Counts:
    """Return whether this failure counts towards the limit that halts the pipeline.

    A system's absence does not count, however long or often: neither Kafka's, nor a Postgres server that was stopped or
    failed over, a network that was cut, or a lack of connections or space. But one row may crash its backend (a
    trigger, an extension, a value too large for its memory), and then Postgres ends every session and recovers within
    seconds; or it may make a function end its own session. So a lost session counts if it ended with a crash of a
    server that goes on, and a session that was ended by command counts if the server went on.

    Neither proves whose fault it was. Ten failures in a row do, with no commit in between, the last ones with no other
    batch running (pipelines/scheduler/turns.py): a batch that does not cause the crashes commits as soon as one of
    its tries falls between two of them. If recovery takes longer than this run waits, the next run counts the failure
    as it takes the pipeline over (engine/lease/take_over.py).
    """
    if policy is ErrorPolicy.DENIED:  # whatever the batch holds: it goes on once the right is granted
        return Counts.NEVER
    if policy is not ErrorPolicy.AWAY:
        return Counts.ALWAYS
    if isinstance(error, LedgerAway) and error.sqlstate == SESSION_ENDED:
        return Counts.UNLESS_STOPPED
    lost = isinstance(error, OutcomeUnknown) or (isinstance(error, LedgerAway) and error.sqlstate is None)
    return Counts.IF_CRASHED if lost else Counts.NEVER
