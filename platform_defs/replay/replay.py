"""Replay: tables rebuilt next to the live ones, compared (`show`), swapped in (`execute`), or dropped (`discard`).

The building pipeline is like any other: it has positions, batches and dead letters of its own in the ledger, under the
name `<pipeline>~replay`, and stops at the live pipeline's positions. engine/plan/replay_plan.py has its rules;
replay/replacement.py swaps it in, in one transaction.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, LiteralString

import psycopg
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import Budget, RunContext, drain, plan_batch
from platform_defs.engine.lease.lease import acquire
from platform_defs.engine.lease.pauses import SUSPECTED
from platform_defs.engine.plan import replay_plan
from platform_defs.engine.plan.replay_plan import (
    DecidedBatch,
    History,
    InTheNameOf,
    PartitionHistory,
    ReplayStart,
    UpTo,
)
from platform_defs.errors import (
    BadInput,
    ChangedMeanwhile,
    Fenced,
    GateFailed,
    Halt,
    LedgerAway,
    LedgerMissing,
    MessagesSuspected,
)
from platform_defs.errors.words import plural
from platform_defs.kafka.broker import KafkaBroker, offsets_at
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.migrations import reading
from platform_defs.ledger.published import Published
from platform_defs.offsets import Position, check_positions
from platform_defs.postgres.connection import connect, database_errors, dict_rows, lock_timeout
from platform_defs.replay.replacement import Replacement, Shown
from platform_defs.runs.open_run import open_run
from platform_defs.stack.endpoints import Endpoints

TRIES = 3  # while another run of the pipeline interferes
WHOLE = Budget(batches=10**9, seconds=inf)
ONE = Budget(batches=1, seconds=inf)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Replay:
    """The operations on a replay of one pipeline."""

    live: Pipeline
    endpoints: Endpoints
    spark: Callable[[], SparkSession]
    decide_again: frozenset[int] = frozenset()  # batches whose decisions are not repeated

    def first_batch(self, start: ReplayStart) -> int:
        """Return the first batch of a replay from `start`: batches are replayed whole. Raises BadInput."""
        name, status = self.live.name, self._ledger.status(self.live.name)
        if status.state == "halted":
            raise BadInput(
                f"it is halted ({status.halt_code}); resolve the halt first: tidegate resolve {name}", field=name
            )
        first = self._replays.first_batch() if status.has_run else None
        if first is None:
            raise BadInput("it has published nothing yet: there is nothing to replay", field=name)
        if start == ReplayStart():
            return first
        found = self._batch_of(start)
        if found is None:
            raise BadInput(
                f"no batch of {name} has read anything from that point on: there is nothing to replay", field="--from"
            )
        return found

    def show(self, from_batch: int, say: Say) -> Shown:
        """Build, or continue building, up to the pipeline's positions, and compare. The live tables do not change.

        Raises BadInput if the result would be wrong, Retryable if the pipeline reads too fast for it.
        """
        with self._replacement.alone(self.endpoints.postgres_url):
            return self._show(from_batch, say)

    def execute(self, start: ReplayStart, reason: str, who: str, say: Say) -> Shown:
        """Build, catch up to the exact positions as the pipeline's owner, and swap the tables in, or change nothing.

        Raises what `show` raises; Fenced when runs of the pipeline keep taking it over.
        """
        first = self.first_batch(start)
        with self._replacement.alone(self.endpoints.postgres_url):
            self._build(self._history(first), say)  # the long part, while the pipeline runs
            trying = Retrying(retry=retry_if_exception_type(Fenced), stop=stop_after_attempt(TRIES), reraise=True)
            shown = trying(self._put_in_place, first, reason, who, say)
            self._drop_tables(say)
            return shown

    def discard(self) -> bool:
        """Drop a build that was not swapped in. Return False if there is none."""
        url = self.endpoints.postgres_url
        alone = self._replacement.alone(url)
        with suppress(LedgerMissing), alone, reading(connect(url)) as connection, connection.transaction():
            return self._replacement.forget(connection)
        return False

    def _show(self, from_batch: int, say: Say) -> Shown:
        trying = Retrying(retry=retry_if_exception_type(_Moved), stop=stop_after_attempt(TRIES), reraise=True)
        return trying(self._build_and_compare, from_batch, say)

    def _build_and_compare(self, from_batch: int, say: Say) -> Shown:
        """Compare in one snapshot, in which both are at the same offsets. Raises _Moved if they are not."""
        history = self._history(from_batch)
        replay_id = self._build(history, say)
        say("comparing")
        with connect(self.endpoints.postgres_url) as connection, database_errors(), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if self._replacement.apart(connection):
                raise _Moved(
                    f"{self.live.name} reads its topic faster than the replay can follow. Try again once the "
                    "pipeline has caught up"
                )
            read = self._replays.messages_read(self._built.name)
            replay_plan.refuse_other_messages(self.live.contract, history, read)
            return Shown(replay_id, history, self._replacement.differences(connection, history))

    def _put_in_place(self, from_batch: int, reason: str, who: str, say: Say) -> Shown:
        """Swap the tables in, as the pipeline's owner, so that no other run moves its positions."""
        with closing(acquire(self._ledger.url, self.live.contract, rebuilding=True)) as held:
            shown = self._show(from_batch, say)
            say("putting it in place")
            self._replacement.put_in_place(held, shown, reason, who)
            return shown

    def _drop_tables(self, say: Say) -> None:
        """Drop the build tables of a replay that is in place. Report tables that remain because another session reads
        them.
        """
        try:
            with connect(self.endpoints.postgres_url) as connection, connection.transaction():
                connection.execute(lock_timeout("10s"))
                self._replacement.drop_tables(connection)
        except (LedgerAway, psycopg.Error) as error:
            drop = f"tidegate replay {self.live.name} --discard"
            say(f"the replay is in place, but its build tables could not be dropped ({error}). To drop them: {drop}")

    def _batch_of(self, start: ReplayStart) -> int | None:
        """Return the batch of a start that is not the beginning."""
        if start.batch is not None:
            if (replay_id := self._replays.replaced_by(start.batch)) is not None:
                raise BadInput(
                    f"batch {start.batch} was replaced by replay {replay_id}. To find the batches that have read its "
                    "offsets since, query tidegate.batch and tidegate.batch_range. Or give offsets, such as "
                    "0:100,1:250",
                    field="--from",
                )
            return self._replays.batch_at_or_after(start.batch)
        if start.timestamp is not None:
            milliseconds = int(start.timestamp.timestamp() * 1000)
            at_time = offsets_at(self.endpoints.kafka_options(), self.live.contract.topic, milliseconds)
            return self._replays.batch_of_offsets(at_time)
        return self._replays.batch_of_offsets(start.offsets or {})

    def _history(self, from_batch: int) -> History:
        """Return the history to replay. Raises BadInput if the result would be wrong."""
        contract, history = self.live.contract, self._replays.history(from_batch)
        view = KafkaBroker(self.endpoints.kafka_options()).describe(contract.topic)
        try:
            check_positions(contract.pipeline, self._ledger.positions(contract.pipeline), view)
        except Halt as halt:
            raise BadInput(
                f"it will halt on its next run ({halt.code}): {halt.reason} A replay reads the same log. Start a "
                "run, and resolve its halt first",
                field=contract.pipeline,
            ) from halt
        replay_plan.refuse_impossible_replay(contract, history, view)
        replay_plan.refuse_undecided(self._replays.decided_batches(), history, self.decide_again)
        return history

    def _build(self, history: History, say: Say) -> int:
        """Continue building, or start again if this is not the replay begun before. Return the replay's id."""
        replay_id, done = self._begun(history, say), 0
        with self._building(replay_id, history) as context:
            try:
                for batch in self._batches(context, history, say):
                    done += batch.messages
                    say(f"{done:,} of {plural(history.messages, 'message')} read again")
            except Halt as halt:
                raise BadInput(
                    f"the replay stopped ({halt.code}): {halt.reason} The live tables have not changed. Fix the cause, "
                    f"then run tidegate replay {self.live.name} again",
                    field=self.live.name,
                ) from halt
            except GateFailed as failed:
                checks = [check for check in failed.results if not check.passed and check.severity == "blocking"]
                raise BadInput(
                    f"the replay stopped: one of its batches fails {', '.join(check.name for check in checks)}. "
                    "The live tables have not changed. Correct the rule, the transform or the contract, then run "
                    f"tidegate replay {self.live.name} again",
                    field=self.live.name,
                ) from failed
        return replay_id

    def _batches(self, context: RunContext, history: History, say: Say) -> Iterator[Published]:
        """Yield the remaining batches. One with suspected messages is read again after their delay; a batch that a user
        decided about is rebuilt by itself with the decision repeated, unless it is in `decide_again`.
        """
        decided = [one for one in self._replays.decided_batches() if one.batch_id not in self.decide_again]
        ends = {item.partition: item.next_offset for item in history.partitions}
        while True:
            at = replace(context, broker=UpTo(context.broker, ends))
            try:
                if not decided:
                    yield from drain(self._built, at, WHOLE)
                    return
                positions = {item.partition: item.next_offset for item in context.ledger.positions()}
                until, marks = replay_plan.next_part(decided, positions, ends)
                at = replace(context, broker=UpTo(context.broker, until))
                if marks and (pending := plan_batch(self._built.contract, at)) is not None:
                    context.ledger.mark(pending.batch_id, marks)
                published = [*drain(self._built, at, ONE)]
                yield from published
                if not published:
                    return
            except MessagesSuspected as found:
                say(f"waiting for {SUSPECTED.first:.0f} s. {found}")
                time.sleep(SUSPECTED.first)

    def _begun(self, history: History, say: Say) -> int:
        """Return the id of exactly this replay, begun now or before."""
        with connect(self.endpoints.postgres_url) as connection, database_errors(), connection.transaction():
            self._replacement.refuse_declassified(connection)
            shapes, again = self._replacement.shapes(connection), sorted(self.decide_again)
            wanted = replay_plan.fingerprint(self.live, history.from_batch, shapes, again)
            found = self._replays.building()
            status = self._ledger.status(self._built.name)
            if found and found[1] == wanted and status.state == "active":
                return found[0]
            if found:
                say(
                    "the earlier build was stopped, or used different code, tables, --from or --decide-again: "
                    "building again"
                )
            return self._replacement.begin(connection, history, wanted, again)

    @contextmanager
    def _building(self, replay_id: int, history: History) -> Generator[RunContext]:
        """Yield the run context of the building pipeline, leased."""
        with open_run(self._built, self.endpoints, self.spark) as context:
            found = self._replays.building()  # read under the lease: from here on it is not discarded unnoticed
            if found is None or found[0] != replay_id:
                raise ChangedMeanwhile(f"another session discarded the replay of {self.live.name}; try again")
            if not context.ledger.positions():
                view = context.broker.describe(self.live.contract.topic)
                log = view.cluster_id, view.topic_id
                starts = [Position(item.partition, *log, item.from_offset) for item in history.partitions]
                context.ledger.add_positions(starts, starts)
            events = InTheNameOf(context.lineage, self.live.contract)
            yield replace(context, lineage=events)

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self.endpoints.postgres_url)

    @property
    def _replays(self) -> "ReplayLedger":
        return ReplayLedger(self.endpoints.postgres_url, self.live.contract)

    @property
    def _built(self) -> Pipeline:
        return replay_plan.beside(self.live)

    @property
    def _replacement(self) -> Replacement:
        return Replacement(self.live, self._built)


class _Moved(ChangedMeanwhile):
    """The pipeline published between building and comparing."""


@dataclass(frozen=True)
class ReplayLedger:
    """Queries about the batches that a replay of one pipeline would replace, and about the replay that is being built,
    in the database at `url`.

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
