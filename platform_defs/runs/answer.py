"""The answer of `tidegate plan`: for a person in sentences, for a program as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from platform_defs.errors.words import plural
from platform_defs.offsets import tasks_for

if TYPE_CHECKING:
    from datetime import datetime

    from platform_defs.contract.model.contract import Contract
    from platform_defs.engine.plan.planning import BatchPlan
    from platform_defs.errors import Halt
    from platform_defs.ledger.answers import PipelineStatus

NOTHING = "everything up to the last stable offset has been read"
BLOCKED = "the waiting partitions are read once an open transaction in the older ones ends"


@dataclass(frozen=True)
class PlannedContract:
    """The contract whose limits and tables are shown: of the `ledger` while a run works by it, or else of the `file`.
    `in_ledger`: the version that the last run worked by; None before the first. `differs`: the file has other rules,
    columns or limits than the ledger.
    """

    source: Literal["file", "ledger"]
    in_file: str
    in_ledger: str | None = None
    differs: bool = False


@dataclass(frozen=True)
class PlanAnswer:
    """The answer: the document of `tidegate plan -o json` (runs/cli.py). `batch`, `lag` and `left` are None if the
    pipeline is halted, or would be.

    `halt` is why it is halted, or will be by its next run. `log` is that of a halted pipeline, if it would halt the
    pipeline as well by now; without a code, its reason is why that is not known. The offsets of a batch to read `again`
    are fixed; each of its ranges is read by one task.
    """

    pipeline: str
    topic: str
    state: str
    epoch: int
    contract: PlannedContract
    dead_letters: Mapping[str, Any]  # above which the pipeline halts: share, minimum, accepted, rule
    tables: list[dict[str, str]]  # table, disposition, how
    halt: Mapping[str, Any] | None = None  # code, reason, message, detail (as the ledger keeps it), command
    log: Mapping[str, Any] | None = None  # code, reason, detail
    held_by: Mapping[str, str | None] | None = None  # the run in progress: run_id (null: Dagster did not start it)
    backed_off_until: datetime | None = None
    batch: Mapping[str, Any] | None = None  # batch_id, again, offsets, tasks, ranges
    nothing: str | None = None
    added: list[dict[str, int]] = field(default_factory=list[dict[str, int]])  # new partitions: partition, next_offset
    waiting: list[int] = field(default_factory=list[int])
    lag: int | None = None
    left: int | None = None
    transform: Mapping[str, Any] | None = None  # compared on a sample: file, row_local, found (why, or how much)
    changed: Mapping[str, Any] | None = None  # as of `changed_transform`
    explanation: dict[str, Any] | None = None  # steps in sentences (step, name, does), and Spark's plan of the job

    def to_json(self) -> dict[str, Any]:
        """Return the document, with `steps` and `spark` if they were requested."""
        document = asdict(self)
        return document | (document.pop("explanation") or {})


def state_of(contract: Contract, status: PipelineStatus, versions: PlannedContract) -> PlanAnswer:
    """Return the answer as far as the contract, which `versions` tells apart, and the ledger provide it."""
    from platform_defs.runs.explain import dead_letter_limit, how

    limits, pending = contract.limits, status.pending
    accepted = pending is not None and pending.resolved_by_user
    return PlanAnswer(
        pipeline=contract.pipeline,
        topic=contract.topic,
        state=status.state,
        epoch=status.epoch,
        contract=versions,
        dead_letters={
            "share": limits.dead_letter_share,
            "minimum": limits.dead_letter_minimum,
            "accepted": accepted,
            "rule": dead_letter_limit(limits, pending),
        },
        tables=[{"table": of.name, "disposition": of.disposition, "how": how(of)} for of in contract.tables],
        held_by={"run_id": status.run_id} if status.held else None,
        backed_off_until=status.retry_at if status.backed_off else None,
    )


COMPARED_FIRST = (
    "Before it publishes, the next batch runs the new code on its messages together and one by one, and compares "
    "the rows. If the rows differ or lack a column, or the code fails, the run fails and nothing is published."
)
AS_THEY_ARE = "The next batch writes the messages as they are."
EARLIER_ROWS = "Rows of earlier batches stay as they are; tidegate replay rebuilds them."


def changed_transform(newest: tuple[int, str] | None, digest: str, files: list[str]) -> dict[str, Any] | None:
    """Return how the transform differs from that of the newest batch. `newest`: its id and the digest of its transform,
    as `Ledger.newest_transform` returns it. `digest`: of the current transform, empty without one. `files`: its own
    file and its imports from the project, one of which has changed.
    """
    if newest is None or newest[1] == digest:
        return None
    batch_id, before = newest
    change = "changed" if before and digest else "added" if digest else "removed"
    next_batch = f"{COMPARED_FIRST if digest else AS_THEY_ARE} {EARLIER_ROWS}"
    return {"files": files, "batch_id": batch_id, "change": change, "next_batch": next_batch}


def with_halt(answer: PlanAnswer, halt: Halt) -> PlanAnswer:
    """Return the answer if the pipeline is halted, or its next run will halt it."""
    coming = (
        f"{halt.pipeline} will halt on its next run ({halt.code}): {halt.reason} After that, to see how to resolve "
        f"it: {halt.command}"
    )
    message = str(halt) if answer.state == "halted" else coming
    shown = {"code": halt.code, "reason": halt.reason, "message": message}
    return replace(answer, halt={**shown, "detail": halt.detail.to_json(), "command": halt.command})


def with_plan(answer: PlanAnswer, planned: BatchPlan) -> PlanAnswer:
    """Return the answer with the ranges that a decided plan will read."""
    pending, batch = planned.pending, None
    if planned.ranges:
        places = ("partition", "from_offset", "until_offset")
        ranges = [{**{name: getattr(item, name) for name in places}, "offsets": len(item)} for item in planned.ranges]
        batch = {
            "batch_id": pending.batch_id if pending else None,
            "again": pending is not None,
            "offsets": planned.offsets,
            "tasks": tasks_for(planned.ranges),
            "ranges": ranges,
        }
    return replace(
        answer,
        batch=batch,
        nothing=None if batch else BLOCKED if planned.waiting else NOTHING,
        added=[{"partition": item.partition, "next_offset": item.next_offset} for item in planned.added],
        waiting=list(planned.waiting),
        lag=sum(planned.lag.values()),
        left=sum(planned.left.values()),
    )


def contract_sentence(answer: PlanAnswer) -> str | None:
    """Return which contract the run in progress, or else the next one, works by; None if file and ledger agree."""
    versions = answer.contract
    if not versions.differs:
        return None
    batch = answer.batch["batch_id"] if answer.batch and answer.batch["again"] else None
    if versions.source == "ledger":
        reads = f"reads batch {batch} under" if batch else "works by"
        return (
            f"The run in progress {reads} version {versions.in_ledger} of the contract, whose limits and tables are "
            f"shown. The file (version {versions.in_file}) differs from it."
        )
    left = f", which left batch {batch} pending," if batch else ""
    return (
        f"The last run{left} worked by version {versions.in_ledger} of the contract. The next run works by the file "
        f"(version {versions.in_file}), whose limits and tables are shown."
    )


def log_sentence(answer: PlanAnswer) -> str | None:
    """Return what has happened to the log of a halted pipeline since; None if nothing has."""
    if (since := answer.log) is None:
        return None
    code, reason = since["code"], since["reason"]
    if code is None:
        return f"Whether the log still has the next messages could not be checked: {reason}"
    return f"Since the halt, the log has changed ({code}): {reason} tidegate resolve takes this into account."


def changed_sentence(changed: Mapping[str, Any]) -> str:
    """Return a sentence with the file of a transform that has changed, and its imports, one of which may have."""
    own, *imported = changed["files"]
    which = f"{own}, or a file that it imports ({', '.join(imported)})," if imported else own
    verb = {"changed": "has changed", "added": "was added", "removed": "was removed"}[changed["change"]]
    return f"{which} {verb} since batch {changed['batch_id']}."


def sentence(answer: PlanAnswer) -> str:
    """Return what the next run will do."""
    if (halt := answer.halt) is not None:
        halted = answer.state == "halted"
        when = "halted" if halted else "will halt on its next run"
        how = "To see how to resolve it" if halted else "After that, to see how to resolve it"
        return f"{when} ({halt['code']}): {halt['reason']} {how}: {halt['command']}"
    if (batch := answer.batch) is None:
        return f"nothing to read: {answer.nothing}."
    what = f"batch {batch['batch_id']}, read again: " if batch["again"] else "next batch: "
    return f"{what}{plural(batch['offsets'], 'offset')} of {answer.topic} in {plural(batch['tasks'], 'task')}"
