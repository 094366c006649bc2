"""The limit above which dead letters are too many to be isolated bad messages. Counts only, no connection."""

from collections.abc import Sequence

from platform_defs.contract.model.contract import Contract, Limits
from platform_defs.contract.model.dead_letter_window import NONE_YET, Counted, Recent
from platform_defs.engine.interfaces.staged import FaultGroup, Staged
from platform_defs.errors import Halt
from platform_defs.errors.halts import TooManyDeadLetters
from platform_defs.errors.words import plural


def recent_with(limits: Limits, staged: Staged) -> Recent:
    """Return the latest messages once `staged` is published. After a batch that a person accepted, counting starts
    again.
    """
    if staged.pending.resolved_by_user:
        return NONE_YET
    return staged.pending.recent.plus(Counted(staged.messages, staged.dead_letters), limits.window_messages)


def break_circuit(contract: Contract, staged: Staged, faults: Sequence[FaultGroup]) -> None:
    """Raise Halt above the contract's limit of dead letters, in this batch or among the latest messages, and if the
    transform fails on everything that it gets.
    """
    if staged.pending.resolved_by_user:
        return
    failed = sum(group.count for group in faults if group.stage == "transform")
    broken = failed >= 2 and not staged.rows  # it fails on all there is: it looks broken, however few they are
    batch = Counted(staged.messages, staged.dead_letters)
    latest = recent_with(contract.limits, staged).latest(contract.limits.window_messages)
    limits, batch_id, dead = contract.limits, staged.pending.batch_id, staged.dead_letters
    if not (broken or limits.exceeded_by(batch) or limits.exceeded_by(latest)):
        return
    samples = tuple(
        {**sample, "stage": group.stage, "error_class": group.error_class}
        for group in faults
        for sample in group.samples[:3]
    )[:12]
    detail = TooManyDeadLetters(
        batch_id=batch_id,
        messages=staged.messages,
        dead_letters=dead,
        by_reason={group.error_class: group.count for group in faults},
        samples=samples,
        latest_messages=latest.messages,
        latest_dead_letters=latest.dead_letters,
    )
    whole = f", and the transform failed on every message that reached it ({failed})" if broken else ""
    raise Halt(
        contract.pipeline,
        detail,
        f"{dead:,} of {plural(staged.messages, 'message')} of batch {batch_id} would be dead letters, "
        f"{latest.dead_letters:,} of the latest {plural(latest.messages, 'message')}; the contract allows at most "
        f"{limits.dead_letter_share:.0%}, from {plural(limits.dead_letter_minimum, 'dead letter')} on{whole}. "
        "Nothing was published.",
    )
