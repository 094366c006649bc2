"""The protocols through which the engine uses what is above it, or what tests replace.

Those for tasks are in engine/interfaces/source_and_staging.py, and the finder of the schemas that messages name in
engine/interfaces/schema_finder.py.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from platform_defs.contract.model.contract import BatchRule, CheckResult, Contract
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.offsets import TopicView


class Broker(Protocol):
    """Describes a topic, in the driver."""

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        """Return the topic as it is now, with all of its partitions or, of these, those that it has; if `configured`
        also whether and how it compacts. Raises BrokerAway, and BadInput if the topic does not exist.
        """
        ...


@dataclass(frozen=True)
class AuditView:
    """A view of the rows that publish would write, for an Auditor to read over its own connection."""

    schema: str
    name: str


class Auditor(Protocol):
    """Evaluates the contract's batch rules over staged rows, over a connection of its own."""

    def evaluate(self, rules: Sequence[BatchRule], view: AuditView) -> list[CheckResult]:
        """Return the result of each of `rules`, in order, on the rows of `view`.

        Raises BadInput if a rule cannot be evaluated at all, LedgerAway if Postgres is unavailable.
        """
        ...


class LineageEvents(Protocol):
    """Makes the OpenLineage event of a batch, to be stored with it."""

    def of_batch(self, contract: Contract, staged: Staged, checks: Sequence[CheckResult]) -> Mapping[str, Any]:
        """Return the COMPLETE event, as JSON."""
        ...
