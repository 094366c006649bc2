"""A user's decision about a pending batch. The positions do not change."""

from platform_defs.errors.halts import BlockingCheckFailed
from platform_defs.errors.words import plural
from platform_defs.resolve.choices import BatchChoice
from platform_defs.resolve.decision import Decision

RETRIED = "The pipeline retries the same batch. Fix the cause first; see the detail."


def decide_failed_checks(failure: BlockingCheckFailed, batch: BatchChoice) -> Decision:
    """Return the decision for the choice `batch` about the batch of `failure`."""
    failed, name = ", ".join(failure.names), f"Batch {failure.batch_id}"
    match batch:
        case "publish":
            text = f"{name} will be published although it fails {failed}."
            return Decision(text, keep_pending=True, checks_accepted=failure.names)
        case "dead-letters":
            messages = plural(failure.messages, "message")
            text = f"{name} will be published without rows: all of its {messages} become dead letters."
            why = f"batch {failure.batch_id} failed {failed}, and a user dead-lettered all of it"
            return Decision(text, keep_pending=True, set_aside=why)
        case "retry":
            text = f"The next run checks {name} again. First correct the rule, or the data or code that it checks."
            others = (
                "Alternatively, publish the batch anyway (--batch publish), or turn all of its messages into dead "
                "letters (--batch dead-letters)."
            )
            return Decision(f"{text} {others}", keep_pending=True)


def decide_missing_schemas(batch: BatchChoice | None) -> Decision:
    """Return the decision about a batch whose messages name schemas that the registry lacks."""
    if batch == "dead-letters":
        text = (
            "The batch will be published: messages whose schema the registry does not return become dead letters, "
            "however many there are, and the others become rows."
        )
        return Decision(text, accept=True, keep_pending=True, without_schemas=True)
    other = (
        "Alternatively, turn the messages whose schema the registry does not return into dead letters (--batch "
        "dead-letters)."
    )
    return Decision(f"{RETRIED} {other}", keep_pending=True)
