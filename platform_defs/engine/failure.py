"""What ended a run is recorded in the ledger: a halt as one, anything else as a pause before the next run.

Nothing is tried again without end, unless a system is away: platform_defs/verdicts.py has the limit.
"""

from platform_defs import verdicts
from platform_defs.engine.ports import LONG, SHORT, SUSPECTED, Pause, PipelineHold
from platform_defs.errors import Fenced, Halt, MessagesSuspected, OutcomeUnknown, Retryable, RowsLost, TidegateError
from platform_defs.halts import KeepsFailing
from platform_defs.verdicts import TRIES, Verdict
from platform_defs.words import plural


def record_failure(pipeline: str, ledger: PipelineHold, error: TidegateError) -> None:
    """Let the ledger know what ended a run. Raises Fenced where another run took over, and Halt `keeps_failing`."""
    known_only_here = isinstance(error, OutcomeUnknown | RowsLost)
    if not known_only_here and ledger.fenced():  # its sessions were ended and its staging swept: that is why it failed
        raise Fenced.taken_over(pipeline) from error
    if isinstance(error, Halt):
        ledger.halt(error.detail)
        return
    verdict = verdicts.of_error(error)
    tries = _back_off(ledger, error, verdict)
    if (tries >= TRIES and not known_only_here) or verdict is Verdict.HALT:
        halt = Halt(pipeline, KeepsFailing(tries, type(error).__name__, str(error)), _keeps_failing(tries, error))
        ledger.halt(halt.detail)
        raise halt from error


def _back_off(ledger: PipelineHold, error: TidegateError, verdict: Verdict) -> int:
    """How often in a row the pending batch has failed; 0 while Postgres cannot be told of it."""
    try:
        return ledger.back_off(_pause(error), counts=verdict is not Verdict.AWAY)
    except TidegateError:  # the session is gone: it is `error` that matters
        return 0


def _pause(error: TidegateError) -> Pause:
    if isinstance(error, MessagesSuspected):
        return SUSPECTED
    return SHORT if isinstance(error, Retryable) else LONG


def _keeps_failing(tries: int, error: TidegateError) -> str:
    times = plural(tries, "time")
    return f"the same batch has failed {times} in a row; nothing of it was published. The last error: {error}"
