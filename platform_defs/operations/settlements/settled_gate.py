"""A user's decision about a batch that fails blocking checks."""

from dataclasses import dataclass
from typing import Literal

from platform_defs.errors.halts import BlockingCheckFailed
from platform_defs.errors.words import plural

BatchChoice = Literal["retry", "publish", "dead-letters"]


@dataclass(frozen=True)
class SettledGate:
    """A decision about the pending batch: in words, and as its fields (offsets.PendingBatch)."""

    explanation: str
    checks_accepted: tuple[str, ...] = ()
    set_aside: str | None = None


def settled_gate(gate: BlockingCheckFailed, batch: BatchChoice) -> SettledGate:
    """Return the decision for the choice `batch` about the batch of `gate`."""
    failed, name = ", ".join(gate.names), f"Batch {gate.batch_id}"
    match batch:
        case "publish":
            return SettledGate(f"{name} will be published although it fails {failed}.", checks_accepted=gate.names)
        case "dead-letters":
            messages = plural(gate.messages, "message")
            said = f"{name} will be published without rows: all of its {messages} become dead letters."
            why = f"batch {gate.batch_id} failed {failed}, and a user dead-lettered all of it"
            return SettledGate(said, set_aside=why)
        case "retry":
            said = f"The next run checks {name} again. First correct the rule, or the data or code that it checks."
            others = (
                "Alternatively, publish the batch anyway (--batch publish), or turn all of its messages into dead "
                "letters (--batch dead-letters)."
            )
            return SettledGate(f"{said} {others}")
