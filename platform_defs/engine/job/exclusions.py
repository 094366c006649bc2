"""Messages that are excluded when their batch runs again: the transform failed on them, or the table rejects them."""

from collections.abc import Mapping

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.lease.pauses import SUSPECTED
from platform_defs.engine.ports.staged import Staged
from platform_defs.engine.ports.task_ports import MessagePlace, Refusal
from platform_defs.errors import Halt, MessagesSuspected, NotReproduced, RowRefused
from platform_defs.errors.halts import AccumulateRefused
from platform_defs.errors.words import plural
from platform_defs.formats.blocks.excerpt import excerpt
from platform_defs.offsets import PendingBatch, Suspect

MAX_ATTEMPTS = 21  # of one batch in one run: the transform's bad messages are found one by one, the table's together


class Excluded(Exception):  # between this module and batch.py only: try again
    """These messages will be dead letters; the batch runs again without them."""

    def __init__(self, refusals: Mapping[MessagePlace, Refusal]) -> None:
        self.refusals = refusals
        super().__init__(self.last)

    @property
    def last(self) -> str:
        """The reason why the last of them is refused."""
        return [refusal.message for refusal in self.refusals.values()][-1]


def wait_for_suspects(
    contract: Contract, ledger: PostgresLease, pending: PendingBatch, excluded: Mapping[MessagePlace, Refusal]
) -> None:
    """Raise MessagesSuspected if excluded messages may yet become rows: the batch waits for all of them together."""
    known = {item.place: item for item in pending.suspects}
    found = {place: why.message for place, why in excluded.items() if not why.certain}
    if not found:
        return
    suspects = [known.get(place, Suspect(*place, excerpt(why))) for place, why in found.items()]
    if ledger.note_suspects(suspects) < SUSPECTED.first:
        ((partition, offset), why), *_ = found.items()
        raise MessagesSuspected(
            f"{contract.pipeline}: {plural(len(suspects), 'message')} of batch {pending.batch_id} cannot be "
            f"transformed, although others can. The first: {contract.topic}[{partition}] at offset {offset}: {why}. "
            "Nothing was published, since a service that the transform calls may be unavailable for these. Messages "
            f"that still fail after {SUSPECTED.first:.0f} seconds become dead letters"
        )


def refused_by_table(contract: Contract, ledger: PostgresLease, staged: Staged, refusal: RowRefused) -> Exception:
    """Return the messages whose rows the row table rejects, to be excluded; a Halt if an accumulate table rejects."""
    found, table = ledger.refused_rows(staged), contract.row_table.name
    if found:
        why = "{} rejects this row: {}"
        refusals = [Refusal("publish", row.error_class, why.format(table, row.message)) for row in found]
        return Excluded({(row.partition, row.offset): refusal for row, refusal in zip(found, refusals, strict=True)})
    if not contract.accumulates:
        return NotReproduced(f"{table} rejected the batch ({refusal}) but now accepts it; it will be read again")
    names = ", ".join(item.name for item in contract.accumulates)
    seen = (
        f"the sums of batch {staged.pending.batch_id} violate a constraint of {names}: {refusal}. Nothing was "
        "published; a sum cannot be attributed to a single message."
    )
    return Halt(contract.pipeline, AccumulateRefused(str(refusal)), seen)
