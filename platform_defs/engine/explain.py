"""What each of the eight steps will do for a planned batch, in sentences: `tidegate plan --explain`.

Told from the same contract, plan and functions that the batch runs with.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from platform_defs.contract.model import Contract, Limits, Table
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import audit
from platform_defs.engine.planning import Plan
from platform_defs.engine.ports import Coverage, Publication, Staged
from platform_defs.engine.publish import publish
from platform_defs.engine.stage import transform_file
from platform_defs.offsets import OffsetRange, PendingBatch, TopicView


@dataclass(frozen=True)
class ExplainedStep:
    """A step of docs/explanation/design.md, and what it will do."""

    step: int
    name: str
    does: tuple[str, ...]


def explain(pipeline: Pipeline, plan: Plan) -> list[ExplainedStep]:
    """The eight steps for the batch that `plan` describes. It has ranges."""
    return [ExplainedStep(n, name, tuple(tell(pipeline, plan))) for n, (name, tell) in enumerate(_STEPS.items(), 1)]


def how(table: Table) -> str:
    """How a table is written."""
    if table.disposition == "accumulate":
        sums = ", ".join(f"{item.column} = {item.function}({item.source or '*'})" for item in table.aggregates)
        return f"{sums} by {', '.join(table.group_by)}, merged into what is there"
    return {
        "append": "each row is inserted",
        "upsert": "the newest message of each key replaces its row; one without a value deletes it",
    }[table.disposition]


def dead_letter_limit(limits: Limits, pending: PendingBatch | None) -> str:
    """When dead letters halt the pipeline."""
    if pending is not None and pending.dead_letters_accepted:
        return "a person accepted those of this batch, however many"
    return f"halts above {limits.dead_letter_share:.0%} of the messages, once there are {limits.dead_letter_minimum:,}"


def transactions(contract: Contract, plan: Plan) -> list[list[tuple[str, str]]]:
    """What each publishing transaction does, in its order: `publish` itself is played to a listener."""
    listener: Any = _Listener(plan.view)
    batch = plan.pending or PendingBatch(0, plan.view.cluster_id, plan.view.topic_id, plan.ranges)
    read = tuple(Coverage(item, UUID(int=0), 0, 0, 0, 0, (), None) for item in batch.ranges)
    publish(listener, listener, contract, Staged(batch, 0, {}, read), (), {}, {})
    return [[(name, (getattr(Publication, name).__doc__ or "").strip()) for name in one] for one in listener.heard]


class _Listener:
    """In the place of ledger, broker and transaction: notes what each transaction is asked to do, and does nothing."""

    def __init__(self, view: TopicView) -> None:
        self.view = view
        self.heard: list[list[str]] = []

    def describe(self, topic: str) -> TopicView:  # noqa: ARG002
        return self.view

    def rehearse(self, staged: Staged) -> None: ...

    @contextmanager
    def publication(self, staged: Staged, *, recorded: bool) -> Iterator["_Listener"]:  # noqa: ARG002
        self.heard.append([])
        yield self

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.heard[-1].append(name)


Sentences = Iterator[str]


def _plan(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    if plan.pending is not None:
        yield f"Batch {plan.pending.batch_id} was fixed by an earlier try: the same offsets are read again."
    else:
        yield f"{plan.offsets:,} offsets are fixed in the ledger; every try reads exactly these until they commit."
    for item in plan.added:
        yield f"Partition {item.partition} is added to the ledger, to be read from {item.next_offset}."
    if plan.waiting:
        yield f"Partitions {list(plan.waiting)} wait until the others have reached the end that they have now."


def _read(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    yield f"{len(plan.ranges)} Spark tasks, one for each range; each reads to the proven end of its range."
    for item in plan.ranges:
        yield f"{item.topic} {spell(item)}{_asked(item)}"


def _check(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    yield "A message that breaks a rule becomes a dead letter under the rule's name; as checks of the batch these warn."
    for name, told in audit.row_check_descriptions(pipeline.contract).items():
        yield f"{name}: {told}"


def _transform(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    if pipeline.transform is None:
        yield "None: a message is a row."
    else:
        yield f"{transform_file(pipeline)}, which has to be row-local."


def _stage(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    table = pipeline.contract.row_table
    yield f"Each task copies its rows beside {table.name}, into an unlogged table of this try, under an id of its own."
    yield f"Columns: {', '.join(f'{column.name} {column.type.postgres}' for column in table.columns)}."


def _audit(pipeline: Pipeline, plan: Plan) -> Sentences:
    yield f"Dead letters: {dead_letter_limit(pipeline.contract.limits, plan.pending)}."
    for rule in pipeline.contract.batch_rules:
        yield f"{rule.name} on {rule.table} ({rule.severity}): {rule.description}"


def _publish(pipeline: Pipeline, plan: Plan) -> Sentences:
    contract = pipeline.contract
    yield f"{contract.delivery}: the broker is asked once more whether the log is still the one of this plan."
    for number, one in enumerate(transactions(contract, plan), 1):
        yield f"Transaction {number}:"
        for name, does in one:
            yield f"{name}: {does}"
    for table in pipeline.contract.tables:
        yield f"{table.name} ({table.disposition}): {how(table)}."


def _tell(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    tables = ", ".join(table.name for table in pipeline.contract.tables)
    yield (
        f"Dagster hears of {tables} and of each check; the OpenLineage event leaves; the consumer group is moved along."
    )


def spell(item: OffsetRange) -> str:
    """A range, as people write it."""
    return f"partition {item.partition} [{item.from_offset}, {item.until_offset})"


def _asked(item: OffsetRange) -> str:
    new = f", which got a new leader: is its log still that of leader epoch {item.leader_epoch}?"
    return new if item.new_leader else ""


_STEPS: dict[str, Callable[[Pipeline, Plan], Sentences]] = {
    "plan": _plan,
    "read": _read,
    "check": _check,
    "transform": _transform,
    "stage": _stage,
    "audit": _audit,
    "publish": _publish,
    "tell": _tell,
}
