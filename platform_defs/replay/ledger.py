"""The ledger's data about the batches that a replay would replace, and about the replay that is being built."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.plan.replay_plan import DecidedBatch, History, PartitionHistory
from platform_defs.ledger.migrations import reading
from platform_defs.postgres.connection import connect, dict_rows


@dataclass(frozen=True)
class ReplayLedger:
    """Queries about the replays of one pipeline, in the database at `url`.

    Each method raises LedgerMissing if there is no ledger yet, LedgerOutdated or LedgerTooNew if it is another
    version's, and LedgerAway.
    """

    url: str = field(repr=False)  # contains the password
    contract: Contract

    def first_batch(self) -> int | None:
        """Return the pipeline's first batch that no replay has replaced; None if it has published nothing."""
        return self._one("replay_bounds")["first_batch"]

    def batch_at_or_after(self, batch_id: int) -> int | None:
        """Return this batch, or the first one after it that no replay has replaced."""
        return self._one("next_batch", batch_id=batch_id)["batch_id"]

    def batch_of_offsets(self, offsets: Mapping[int, int]) -> int | None:
        """Return the first batch that read any of `offsets` (by partition) or a later offset of their partitions."""
        asked = {"partitions": list(offsets), "offsets": list(offsets.values())}
        return self._one("batch_of_offsets", **asked)["batch_id"]

    def replaced_by(self, batch_id: int) -> int | None:
        """Return the replay that replaced a batch of the pipeline; None if none did."""
        found = self._rows("replaced_by", batch_id=batch_id)
        return found[0]["replaced_by"] if found else None

    def history(self, from_batch: int) -> History:
        """Return what the batches from `from_batch` on read, by partition, and from which logs."""
        bounds = self._one("replay_bounds")
        partitions = self._rows("partition_histories", from_batch=from_batch)
        others = [f"{row['topic']} ({row['topic_id']})" for row in self._rows("other_logs", from_batch=from_batch)]
        return History(
            bounds["first_batch"],
            from_batch,
            bounds["lost_until"],
            tuple(PartitionHistory(**row) for row in partitions),
            tuple(others),
        )

    def building(self) -> tuple[int, str] | None:
        """Return the id of the replay whose tables are being built and not yet swapped in, and the hash of what decides
        its result (engine.replay_plan.fingerprint); None if there is none.
        """
        found = self._rows("replay_of")
        return (found[0]["replay_id"], found[0]["fingerprint"]) if found else None

    def decided_batches(self) -> list[DecidedBatch]:
        """Return the batches that a user accepted or dead-lettered although they fail blocking checks, by id."""
        found = dict[int, DecidedBatch]()
        for row in self._rows("decided_batches"):
            decided = {name: value for name in ("checks_accepted", "set_aside") if (value := row[name])}
            before = found.get(row["batch_id"], DecidedBatch(row["batch_id"], {}, {}))
            start, until = before.spans.get(row["partition"], (row["from_offset"], row["until_offset"]))
            span = min(start, row["from_offset"]), max(until, row["until_offset"])
            spans = {**before.spans, row["partition"]: span}
            found[before.batch_id] = DecidedBatch(before.batch_id, {**before.marks, **decided}, spans)
        return [*found.values()]

    def messages_read(self, builder: str) -> dict[int, int]:
        """Return, by partition, the messages that the pipeline `builder`, which builds the replay, read."""
        return {row["partition"]: row["messages"] for row in self._rows("messages_read", beside=builder)}

    def _one(self, query: LiteralString, **parameters: Any) -> dict[str, Any]:
        (row,) = self._rows(query, **parameters)
        return row

    def _rows(self, query: LiteralString, **parameters: Any) -> list[dict[str, Any]]:
        asked = {"pipeline": self.contract.pipeline, "topic": self.contract.topic, **parameters}
        with reading(connect(self.url)) as connection:
            return dict_rows(connection, query, asked)
