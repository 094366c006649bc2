"""The decision about a halt, or about a batch that fails its checks: decided purely, carried out by settlement.py."""

from dataclasses import dataclass

from platform_defs.resolve.ledger import LogPosition, PartitionChange

Positions = tuple[tuple[int, LogPosition], ...]


@dataclass(frozen=True)
class Decision:
    """The change that resolves a halt, or a batch that fails its checks."""

    explanation: str
    steps: tuple[PartitionChange, ...] = ()
    accept: bool = False  # the dead letters of the pending batch
    keep_pending: bool = False
    checks_accepted: tuple[str, ...] = ()  # blocking checks that the pending batch may fail
    set_aside: str | None = None  # why every message of the pending batch becomes a dead letter
    log: tuple[str, str] | None = None  # cluster id and topic id of the log in which the pipeline continues, if new
    registry: str | None = None  # whose next generation of schemas begins at the positions
    without_schemas: bool = False  # messages of the pending batch without a schema become dead letters
