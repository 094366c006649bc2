"""What settles a halt: decided and shown (`plan`), then done in one transaction if nothing has changed (`settle`).

retention_passed                  the missing offsets become a declared skip; go on at the low watermark
log_truncated                     what was cut is recorded as lost history; go on at the new end
topic_recreated, cluster_switched a new generation, from its beginning or its end; the old one is lost history. So for
                                  any halt where the log is another one by now; and where it is the old one again
                                  (the address was mended), go on where it was
partition_missing                 the position is forgotten; what it had read is lost history
too_many_dead_letters             the pending batch is published with all of them
anything else                     go on, after the cause is mended
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from platform_defs.contract.model import Contract
from platform_defs.engine.ports import Broker
from platform_defs.errors import BadInput, Retryable
from platform_defs.offsets import PartitionView, TopicView
from resources.postgres.connection import connect, database_errors, queries
from resources.postgres.ledger import Ledger

NewLogStart = Literal["beginning", "end"]


@dataclass(frozen=True)
class Place:
    """Where a partition is read from: its log, and the offset."""

    cluster_id: str
    topic_id: str
    start_offset: int
    next_offset: int


@dataclass(frozen=True)
class PartitionChange:
    """What a settlement does to one partition. `was` is None for a new one, `becomes` for one that is forgotten."""

    partition: int
    was: Place | None
    becomes: Place | None
    skip: tuple[int, int] | None = None  # offsets given up
    lost: tuple[int, int] | None = None  # offsets whose rows no log can confirm any more


@dataclass(frozen=True)
class Settlement:
    """A decision, not yet carried out."""

    pipeline: str
    code: str
    detail: dict[str, Any]
    epoch: int
    explanation: str
    steps: tuple[PartitionChange, ...] = ()
    accept: bool = False  # the dead letters of the pending batch
    keep_pending: bool = False
    positions: tuple[tuple[int, Place], ...] = field(default=(), repr=False)  # as they were when this was decided

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        del document["positions"]
        return {**document, "state": "halted", "fingerprint": self.fingerprint}

    @property
    def fingerprint(self) -> str:
        """Of everything that was shown: to carry out exactly that and nothing else."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


def propose(contract: Contract, ledger: Ledger, broker: Broker, start: NewLogStart | None) -> Settlement | None:
    """What would settle the pipeline's halt; None when it is not halted. Changes nothing.

    Raises BadInput when `start` is needed and missing, BrokerAway, LedgerAway.
    """
    status = ledger.status(contract.pipeline)
    if status is None or status.state == "active":
        return None
    positions = [
        (at.partition, Place(at.cluster_id, at.topic_id, at.start_offset, at.next_offset))
        for at in ledger.started_positions(contract.pipeline, contract.topic)
    ]
    code, detail = status.halt_code, dict(status.halt_detail or {})
    explanation, steps, accept, keep = _decide(code, detail, positions, contract, broker, start)
    return Settlement(
        contract.pipeline, code, detail, status.epoch, explanation, tuple(steps), accept, keep, tuple(positions)
    )


Decision = tuple[str, list[PartitionChange], bool, bool]


def _decide(
    code: str,
    detail: dict[str, Any],
    positions: Sequence[tuple[int, Place]],
    contract: Contract,
    broker: Broker,
    start: NewLogStart | None,
) -> Decision:
    if code == "too_many_dead_letters":
        kept = f"Batch {detail['batch_id']} is published with its {detail['dead_letters']} dead letters."
        return f"{kept} (If the contract is wrong, mend it instead: nothing was published.)", [], True, True
    if code not in ("retention_passed", "log_truncated", "topic_recreated", "cluster_switched", "partition_missing"):
        return "The pipeline goes on with the same batch. Mend what stopped it first; see the detail.", [], False, True
    view = broker.describe(contract.topic)
    # Whatever it halted for: offsets of one log mean nothing in another.
    if any((at.cluster_id, at.topic_id) != (view.cluster_id, view.topic_id) for _, at in positions):
        return _new_generation(positions, view, start)
    if code in ("topic_recreated", "cluster_switched"):
        return "The log that was read is there again. Reading goes on where it was.", [], False, True
    asked = detail.get("partitions", []) if code == "log_truncated" else []  # found by leader epoch: cut and written on
    mended = ((number, at, _mend(number, at, view.partitions.get(number))) for number, at in positions)
    steps = [step or PartitionChange(number, at, at) for number, at, step in mended if step or number in asked]
    return _EXPLAINED[code], steps, False, False


_EXPLAINED = {
    "retention_passed": "The offsets that retention deleted are given up; reading goes on at the first that is left.",
    "log_truncated": (
        "Reading goes on at the end that the log has now, or where it was if the log was written on. Rows of the"
        " offsets that were cut stay in the tables; no log can confirm them any more."
    ),
    "partition_missing": "The partition's position is forgotten; its rows stay in the tables.",
}


def _mend(number: int, at: Place, held: PartitionView | None) -> PartitionChange | None:
    """What it takes for a partition to be readable again; None if it is."""
    if held is None:
        return PartitionChange(number, at, None, lost=_span(0, at.next_offset))
    if held.low > at.next_offset:
        becomes = Place(at.cluster_id, at.topic_id, at.start_offset, held.low)
        return PartitionChange(number, at, becomes, skip=(at.next_offset, held.low))
    if held.end < at.next_offset:
        becomes = Place(at.cluster_id, at.topic_id, min(at.start_offset, held.end), held.end)
        return PartitionChange(number, at, becomes, lost=(held.end, at.next_offset))
    return None


def _new_generation(positions: Sequence[tuple[int, Place]], view: TopicView, start: NewLogStart | None) -> Decision:
    if start is None:
        spans = ", ".join(f"partition {n} [{held.low}, {held.end})" for n, held in sorted(view.partitions.items()))
        raise BadInput(
            f"{view.topic} is another log now ({spans}). Say where to begin in it: --from beginning or --from end"
        )
    known = dict(positions)
    steps = [
        PartitionChange(n, at, None, lost=_span(0, at.next_offset)) for n, at in positions if n not in view.partitions
    ]
    for number, held in sorted(view.partitions.items()):
        first = held.low if start == "beginning" else held.end
        was = known.get(number)
        lost = _span(0, was.next_offset) if was else None
        steps.append(PartitionChange(number, was, Place(view.cluster_id, view.topic_id, first, first), lost=lost))
    told = "Rows of the old one stay in the tables; what it held after the positions is unknown and was never read."
    return f"Reading goes on at the {start} of the new log. {told}", steps, False, False


def _span(start: int, until: int) -> tuple[int, int] | None:
    return (start, until) if start < until else None


def settle(url: str, contract: Contract, decided: Settlement, reason: str, who: str) -> int:
    """Carry out `decided` and record it; its id. Raises Retryable, nothing changed, if anything is not as decided."""
    key = {
        "pipeline": contract.pipeline,
        "topic": contract.topic,
        "epoch": decided.epoch,
        "reason": reason,
        "settled_by": who,
    }
    with connect(url) as connection, database_errors(), connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '30s'")
        # 1. Everything is as it was shown.
        _unchanged(connection, key, decided)
        # 2. Who, why, and what: the positions before are in the steps.
        record = {**key, "code": decided.code, "detail": Jsonb(decided.detail), "actions": Jsonb(decided.to_json())}
        (settlement_id,) = connection.execute(queries()["record_settlement"], record).fetchone() or (0,)
        # 3. The positions, each as a compare-and-swap.
        for step in sorted(
            decided.steps, key=lambda item: item.was is None
        ):  # a new partition needs its siblings moved
            for name, parameters in _statements(step):
                done = connection.execute(queries()[name], {**key, "settlement_id": settlement_id, **parameters})
                if name in _SWAPS and done.rowcount != 1:
                    raise Retryable(f"partition {step.partition} of {contract.pipeline} has moved; nothing was changed")
        # 4. The pipeline, under the next epoch: whoever ran before it halted changes nothing any more.
        going = {**key, "accept": decided.accept, "keep_pending": decided.keep_pending}
        if connection.execute(queries()["reactivate"], going).rowcount != 1:
            raise Retryable(f"{contract.pipeline} was settled or taken over meanwhile; nothing was changed")
    return settlement_id


_SWAPS = ("settle_position", "forget_position", "add_position")


def _statements(step: PartitionChange) -> Iterator[tuple[str, dict[str, Any]]]:
    """The named statements that carry out one step, with their parameters."""
    here: dict[str, Any] = {"partition": step.partition}
    if step.skip and step.was:
        yield (
            "declare_skip",
            {**here, "topic_id": step.was.topic_id, "from_offset": step.skip[0], "until_offset": step.skip[1]},
        )
    if step.lost and step.was:
        gone = {**here, "from_offset": step.lost[0], "until_offset": step.lost[1], "topic_id": step.was.topic_id}
        yield "declare_lost", gone
        if step.becomes is None or step.becomes.topic_id == step.was.topic_id:
            yield "set_aside", gone
    if step.was and step.becomes:
        was = {
            "was_next": step.was.next_offset,
            "was_topic_id": step.was.topic_id,
            "was_cluster_id": step.was.cluster_id,
        }
        yield "settle_position", {**here, **asdict(step.becomes), **was}
    elif step.was:
        yield "forget_position", {**here, "was_next": step.was.next_offset}
    elif step.becomes:
        yield "add_position", {**here, **asdict(step.becomes), "late": True}


def _unchanged(connection: psycopg.Connection[Any], key: dict[str, Any], decided: Settlement) -> None:
    """Lock the pipeline's row and positions. Raises Retryable unless they are as `decided` saw them."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(queries()["halted"], key).fetchone() or {}
        now = cursor.execute(queries()["settled_positions"], key).fetchall()
    seen = (row.get("state"), row.get("epoch"), row.get("halt_code"), row.get("halt_detail") or {})
    places = tuple((item.pop("partition"), Place(**item)) for item in now)
    if seen != ("halted", decided.epoch, decided.code, decided.detail) or places != decided.positions:
        raise Retryable(
            f"{decided.pipeline} is no longer as it was shown; nothing was changed. Look again: "
            f"tidegate ack {decided.pipeline}"
        )
