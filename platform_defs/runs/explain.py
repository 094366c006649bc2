"""The eight steps of a planned batch, in sentences: `tidegate plan --explain`.

Taken from the same contract, plan and publishing steps that the batch runs with.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from platform_defs.contract.model.contract import Limits, Table
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.commit import audit
from platform_defs.engine.commit.publish import STEPS
from platform_defs.engine.direct import goes_direct
from platform_defs.engine.job.transform import transform_file
from platform_defs.engine.plan.planning import BatchPlan
from platform_defs.errors.words import noun_for, plural
from platform_defs.offsets import PendingBatch, tasks_for


def explain(pipeline: Pipeline, plan: BatchPlan) -> list[dict[str, Any]]:
    """Return the eight steps (engine/batch.py) for the batch that `plan` describes, which has ranges: step (its
    number), name, and does, its effects.
    """
    batch = _Batch(pipeline, plan)
    steps = {
        "plan": batch.planned(),
        "read": batch.read(),
        "check": batch.checked(),
        "transform": batch.transformed(),
        "stage": batch.staged(),
        "audit": batch.audited(),
        "publish": batch.published(),
        "report": batch.reported(),
    }
    numbered = enumerate(steps.items(), 1)
    return [{"step": number, "name": name, "does": [*does]} for number, (name, does) in numbered]


def how(table: Table) -> str:
    """Return how rows are written to the table."""
    if table.disposition == "accumulate":
        sums = ", ".join(f"{item.column} = {item.function}({item.source or '*'})" for item in table.aggregates)
        return f"{sums} by {', '.join(table.group_by)}, merged into the existing rows"
    return {
        "append": "each row is inserted",
        "upsert": "the newest message of each key replaces its row; a message without a value deletes it",
    }[table.disposition]


def dead_letter_limit(limits: Limits, pending: PendingBatch | None) -> str:
    """Return the condition under which dead letters halt the pipeline."""
    if pending is not None and pending.set_aside is not None:
        return "the whole batch, as decided with tidegate resolve"
    if pending is not None and pending.dead_letters_accepted:
        return "no limit for this batch, as decided with tidegate resolve"
    return (
        f"halts above {limits.dead_letter_share:.0%} of the batch, or of the latest {limits.window_messages:,.0f} "
        f"messages, from {plural(limits.dead_letter_minimum, 'dead letter')} on"
    )


@dataclass(frozen=True)
class _Batch:
    """A planned batch: a method for each step, which yields its sentences."""

    pipeline: Pipeline
    plan: BatchPlan

    @property
    def _direct(self) -> bool:
        contract, pending = self.pipeline.contract, self.plan.pending
        return contract.publication == "direct" and (pending is None or goes_direct(self.pipeline, pending))

    def planned(self) -> Iterator[str]:
        plan = self.plan
        if plan.pending is not None:
            yield f"The offsets of batch {plan.pending.batch_id} were fixed by an earlier try and will be read again."
        else:
            fixed = f"{plural(plan.offsets, 'offset')} {'is' if plan.offsets == 1 else 'are'} fixed in the ledger"
            yield f"{fixed}; every try reads exactly these until the batch is committed."
        for item in plan.added:
            yield f"Partition {item.partition} is added to the ledger and read from offset {item.next_offset}."
        if plan.waiting:
            verb = "waits" if len(plan.waiting) == 1 else "wait"
            waiting = f"{noun_for(len(plan.waiting), 'Partition')} {', '.join(map(str, plan.waiting))} {verb}"
            yield f"{waiting} until the older partitions have been read: keys may have moved from there."

    def read(self) -> Iterator[str]:
        ranges = self.plan.ranges
        yield f"{plural(tasks_for(ranges), 'Spark task')}; each range is read until its end is proven."
        for item in ranges:
            new = f"; the partition has a new leader; its log is checked against leader epoch {item.leader_epoch}"
            yield f"{item.topic} {item}{new if item.new_leader else ''}"

    def checked(self) -> Iterator[str]:
        yield "A message that breaks a rule becomes a dead letter under the rule's name; its check only warns."
        for name, description in audit.row_check_descriptions(self.pipeline.contract).items():
            yield f"{name}: {description}"

    def transformed(self) -> Iterator[str]:
        if self.pipeline.transform is None:
            yield "No transform: each message becomes one row."
        else:
            yield f"{transform_file(self.pipeline)}, which must be row-local."

    def staged(self) -> Iterator[str]:
        table = self.pipeline.contract.row_table
        if self._direct:
            yield f"Nothing: each task copies its rows straight to {table.name} and publishes its range with them."
            yield (
                "A range that cannot be published this way (for example, if the table rejects a row) is staged instead."
            )
            return
        yield (
            f"Each task copies its rows to an unlogged staging table for this try, with the columns of {table.name}."
        )
        yield f"Columns: {', '.join(f'{column.name} {column.type.postgres}' for column in table.columns)}."

    def audited(self) -> Iterator[str]:
        contract = self.pipeline.contract
        yield f"Dead letters: {dead_letter_limit(contract.limits, self.plan.pending)}."
        for rule in contract.batch_rules:
            yield f"{rule.name} on {rule.table} ({rule.severity}): {rule.description}"

    def published(self) -> Iterator[str]:
        contract = self.pipeline.contract
        if self._direct:
            yield (
                "Each range is a batch of its own, published by its task: the ranges do not all become visible at once."
            )
        yield "Check again with the broker that the topic was not recreated or truncated since the plan."
        yield "In one transaction:"
        for step in STEPS:
            yield f"{step.name}: {step.does}"
        for table in contract.tables:
            yield f"{table.name} ({table.disposition}): {how(table)}."

    def reported(self) -> Iterator[str]:
        tables = ", ".join(table.name for table in self.pipeline.contract.tables)
        yield f"Dagster gets a materialization of {tables} and a result for each check."
        yield "The OpenLineage event is sent, and the new positions are committed to the consumer group."
