"""A user's decision about a batch that fails blocking checks."""

from platform_defs.errors.halts import BlockingCheckFailed
from platform_defs.errors.words import plural
from platform_defs.operations.settlements.choices import BatchChoice
from platform_defs.operations.settlements.settled_log import Decision


def settled_gate(gate: BlockingCheckFailed, batch: BatchChoice) -> Decision:
    """Return the decision for the choice `batch` about the batch of `gate`. The positions do not change."""
    failed, name = ", ".join(gate.names), f"Batch {gate.batch_id}"
    match batch:
        case "publish":
            text = f"{name} will be published although it fails {failed}."
            return Decision(text, keep_pending=True, checks_accepted=gate.names)
        case "dead-letters":
            messages = plural(gate.messages, "message")
            text = f"{name} will be published without rows: all of its {messages} become dead letters."
            why = f"batch {gate.batch_id} failed {failed}, and a user dead-lettered all of it"
            return Decision(text, keep_pending=True, set_aside=why)
        case "retry":
            text = f"The next run checks {name} again. First correct the rule, or the data or code that it checks."
            others = (
                "Alternatively, publish the batch anyway (--batch publish), or turn all of its messages into dead "
                "letters (--batch dead-letters)."
            )
            return Decision(f"{text} {others}", keep_pending=True)
