"""The protocols through which the engine uses Kafka and Postgres: it opens no connection itself.

`resources/` implements them. Those for tasks are in engine/ports/task_ports.py, the transaction that publishes a batch
in engine/ports/publication_ports.py, and the finder of the schemas that messages name in engine/ports/schema_ports.py.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from platform_defs.contract.model.contract import BatchRule, CheckResult, Contract
from platform_defs.engine.ports.pauses import LONG, Counts, Pause
from platform_defs.engine.ports.publication_ports import CountsFaults, DirectArea, Publication, Staged
from platform_defs.engine.ports.task_ports import Coverage, StagingArea
from platform_defs.errors.halts import BlockingCheckFailed, HaltDetail
from platform_defs.ledger.published import Published
from platform_defs.offsets import OffsetRange, PendingBatch, Position, Suspect, TopicView


class Broker(Protocol):
    """Describes a topic, in the driver."""

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        """Return the topic as it is now, with all of its partitions or, of these, those that it has; if `configured`
        also whether and how it compacts. Raises BrokerAway, and BadInput if the topic does not exist.
        """
        ...


@dataclass(frozen=True)
class RefusedRow:
    """The message whose rows the row table rejects, with Postgres' error."""

    partition: int
    offset: int
    error_class: str  # of psycopg.errors, such as NotNullViolation
    message: str


@dataclass(frozen=True)
class AuditView:
    """A view of the rows that publish would write, for an Auditor to read over its own connection."""

    schema: str
    name: str


class Auditor(Protocol):
    """Evaluates the contract's batch rules over staged rows, over a connection of its own."""

    def evaluate(self, rules: Sequence[BatchRule], view: AuditView) -> list[CheckResult]:
        """Return the result of each of `rules`, in order, on the rows of `view`.

        Raises BadInput if a rule cannot be evaluated at all, LedgerAway if Postgres is away.
        """
        ...


class PipelineLease(CountsFaults, Protocol):
    """One run's lease of a pipeline, from `acquire` to the run's end.

    Each of its methods raises LedgerAway if Postgres is away. Those that write do so under the run's epoch and owner:
    if another run has taken the pipeline over they raise Fenced, except those that do nothing then.
    """

    @property
    def contract_digest(self) -> str | None:
        """The digest of the contract that each try is checked against; None for a replay that is being built."""
        ...

    def ping(self) -> None:
        """Run a query in Postgres. Raises LedgerAway if the run's session is gone."""
        ...

    def positions(self) -> list[Position]:
        """Return the pipeline's position in each partition; empty before its first batch."""
        ...

    def pending(self) -> PendingBatch | None:
        """Return the batch whose offsets are fixed and that has not committed, if there is one."""
        ...

    def add_positions(self, added: Sequence[Position], every: Sequence[Position]) -> None:
        """Store the positions of partitions seen for the first time, and the `seen_end` of those known before.

        `every`: all positions as they will be, including those `added` (`decide` in engine/plan/planning.py).
        """
        ...

    def has_failed(self) -> bool:
        """Return True if the last try at the pipeline failed, or died, and nothing was planned or published since."""
        ...

    def row_local(self) -> str | None:
        """Return the key (engine/job/row_local.py) of the transform that was compared last without a difference."""
        ...

    def note_row_local(self, key: str) -> None:
        """Record that this transform was compared, so that it is not compared again."""
        ...

    def new_batch_id(self) -> int:
        """Return an id that no batch has had. Ids grow; an unused one leaves a hole."""
        ...

    def fix(self, view: TopicView, ranges: Sequence[OffsetRange], batch_id: int | None = None) -> PendingBatch:
        """Step 1: fix the offsets of the next batch, under a new id unless one is given. Until it commits, every try
        reads exactly these.
        """
        ...

    def mark(self, batch_id: int, marks: Mapping[str, Any]) -> None:
        """Store what a person has decided about the pending batch, as fields of `PendingBatch`."""
        ...

    def open_staging(self, pending: PendingBatch) -> StagingArea:
        """Open a staging area for one try at `pending`, which no other try uses meanwhile."""
        ...

    def open_direct(self, pending: PendingBatch, staging_id: int) -> DirectArea:
        """Open an area in which the tasks of this try publish the ranges of `pending`, each as a batch with an id of
        its own.
        """
        ...

    def published_directly(self, area: DirectArea) -> Sequence[Published]:
        """Return the batches of such a try that have committed, by id."""
        ...

    def coverage(self, staging_id: int) -> list[Coverage]:
        """Return every complete attempt of a try, in order of partition and offset; a range may have several."""
        ...

    def audit_view(self, staged: Staged) -> AuditView | None:
        """Return a view of the rows that publish would write; None if there are no rows."""
        ...

    def publication(self, staged: Staged) -> AbstractContextManager[Publication]:
        """Open the publishing transaction, which commits when the block ends without an error. The batch's own row,
        written in it, decides the outcome of a COMMIT that got no answer.

        Raises RowRefused if a table rejects a row, LedgerAway if the transaction certainly did not commit,
        OutcomeUnknown if that cannot be established.
        """
        ...

    def refused_rows(self, staged: Staged) -> Sequence[RefusedRow]:
        """Return the messages, by partition and offset, whose rows the row table rejects, as far as they are found at
        once; none if it accepts all.
        """
        ...

    def fenced(self) -> bool:
        """Return True if another run, or a settlement, took the pipeline over. False while Postgres is away."""
        ...

    def note_failed_checks(self, failed: BlockingCheckFailed) -> int:
        """Record the blocking checks that the pending batch failed. Return how often it has failed them, this time
        included.

        0 for a fenced run, which changes nothing.
        """
        ...

    def note_suspects(self, suspects: Sequence[Suspect]) -> float:
        """Record the messages of the pending batch that seem to make it fail, in place of those before; a new one is
        suspected from now on. Return for how many seconds the latest of them has been suspected.
        """
        ...

    def back_off(self, error: str, pause: Pause = LONG, *, counts: Counts = Counts.ALWAYS) -> int:
        """Keep the pending batch, and let the sensor wait before it is tried again; `error` is shown until then. Does
        nothing for a fenced run.

        Returns how often in a row the pending batch has failed by now, counting only failures that count; 0 if no batch
        is pending. Uses another session if the run's own is gone.
        """
        ...

    def halt(self, detail: HaltDetail) -> None:
        """Stop the pipeline until a person resolves it. Does nothing for a fenced run."""
        ...

    def sweep(self, *, keep: int | None = None) -> None:
        """Delete what tries left in staging, except the one to `keep`. What another session has locked stays until the
        next sweep. Does nothing for a fenced run.
        """
        ...

    def discard(self, staging_id: int) -> None:
        """Delete what this try left in staging, as `sweep` does."""
        ...


class LineageEvents(Protocol):
    """Makes the OpenLineage event of a batch, to be stored with it."""

    def of_batch(self, contract: Contract, staged: Staged, checks: Sequence[CheckResult]) -> Mapping[str, Any]:
        """Return the COMPLETE event, as JSON."""
        ...
