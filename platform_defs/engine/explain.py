"""What each of the eight steps will do for a planned batch, in sentences: `tidegate plan --explain`.

Taken from the same contract, plan and publishing steps that the batch runs with.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from platform_defs.contract.model import Limits, Table
from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import audit
from platform_defs.engine.planning import Plan
from platform_defs.engine.publish import TRANSACTIONS
from platform_defs.engine.stage import transform_file
from platform_defs.offsets import OffsetRange, PendingBatch


@dataclass(frozen=True)
class ExplainedStep:
    """One of the eight steps of a batch (engine/batch.py), and what it will do."""

    step: int
    name: str
    does: tuple[str, ...]


def explain(pipeline: Pipeline, plan: Plan) -> list[ExplainedStep]:
    """The eight steps for the batch that `plan` describes, which has ranges."""
    steps = enumerate(_STEPS.items(), 1)
    return [ExplainedStep(number, name, tuple(sentences(pipeline, plan))) for number, (name, sentences) in steps]


def how(table: Table) -> str:
    """How a table is written."""
    if table.disposition == "accumulate":
        sums = ", ".join(f"{item.column} = {item.function}({item.source or '*'})" for item in table.aggregates)
        return f"{sums} by {', '.join(table.group_by)}, merged into the rows that are there"
    return {
        "append": "each row is inserted",
        "upsert": "the newest message of each key replaces its row; a message without a value deletes it",
    }[table.disposition]


def dead_letter_limit(limits: Limits, pending: PendingBatch | None) -> str:
    """When dead letters halt the pipeline."""
    if pending is not None and pending.dead_letters_accepted:
        return "accepted for this batch with tidegate ack, however many there are"
    return f"halts above {limits.dead_letter_share:.0%} of the messages, once there are {limits.dead_letter_minimum:,}"


Sentences = Iterator[str]


def _plan(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    if plan.pending is not None:
        yield f"The offsets of batch {plan.pending.batch_id} were fixed by an earlier try and are read again."
    else:
        yield f"{plan.offsets:,} offsets are fixed in the ledger; every try reads exactly these until the commit."
    for item in plan.added:
        yield f"Partition {item.partition} is added to the ledger and read from offset {item.next_offset}."
    if plan.waiting:
        waiting = ", ".join(map(str, plan.waiting))
        yield f"Partitions {waiting} wait until the others have been read up to their current end."


def _read(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    yield f"{len(plan.ranges)} Spark tasks, one for each range; each reads until the end of its range is proven."
    for item in plan.ranges:
        yield f"{item.topic} {item}{_asked(item)}"


def _check(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    yield "A message that breaks a rule becomes a dead letter under the rule's name; its check only warns."
    for name, description in audit.row_check_descriptions(pipeline.contract).items():
        yield f"{name}: {description}"


def _transform(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    if pipeline.transform is None:
        yield "None: each message becomes a row."
    else:
        yield f"{transform_file(pipeline)}, which must be row-local."


def _stage(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    table = pipeline.contract.row_table
    yield f"Each task copies its rows to an unlogged staging table of this try, with the columns of {table.name}."
    yield f"Columns: {', '.join(f'{column.name} {column.type.postgres}' for column in table.columns)}."


def _audit(pipeline: Pipeline, plan: Plan) -> Sentences:
    yield f"Dead letters: {dead_letter_limit(pipeline.contract.limits, plan.pending)}."
    for rule in pipeline.contract.batch_rules:
        yield f"{rule.name} on {rule.table} ({rule.severity}): {rule.description}"


def _publish(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    contract = pipeline.contract
    yield f"{contract.delivery}: the broker is asked once more whether this is still the log that was planned on."
    for number, transaction in enumerate(TRANSACTIONS[contract.delivery], 1):
        yield f"Transaction {number}:"
        for step in transaction.steps:
            yield f"{step.name}: {step.does}"
    for table in contract.tables:
        yield f"{table.name} ({table.disposition}): {how(table)}."


def _tell(pipeline: Pipeline, plan: Plan) -> Sentences:  # noqa: ARG001
    tables = ", ".join(table.name for table in pipeline.contract.tables)
    yield f"Dagster gets a materialization of {tables} and a result of each check."
    yield "The OpenLineage event is sent, and the consumer group is moved to the new positions."


def _asked(item: OffsetRange) -> str:
    new = f"; it has a new leader, which is asked whether its log goes on from leader epoch {item.leader_epoch}"
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
