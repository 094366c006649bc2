"""The model's predictions for its pipeline: the outcome of each step of the owner; others must change nothing."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from hypothesis.stateful import RuleBasedStateMachine

from platform_defs.contract.model.contract import Contract, Table
from platform_defs.engine.lease.lease import acquire
from platform_defs.engine.lease.pauses import Counts
from platform_defs.errors import (
    BadInput,
    BrokerAway,
    Fenced,
    GateFailed,
    Halt,
    LedgerAway,
    LogTruncated,
    OffsetsUnavailable,
    StagingLost,
)
from platform_defs.ledger.ledger import Ledger
from platform_defs.offsets import Position
from platform_defs.postgres.connection import connect
from platform_defs.resolve import settlement
from platform_defs.resolve.choices import BatchChoice, ResumeAt
from tests.model.counted import CountedMessages
from tests.model.cuts import continues
from tests.model.log import Log, Part
from tests.model.runs import Run, next_version
from tests.model.seen import Seen, Span, left_out, look, positions

DEATHS = 3  # failures in a row that halt the pipeline, if the last one was a death


class Expectations(RuleBasedStateMachine):
    """The predictions. A subclass gives `url`, the database, and `fired`, which counts events over all examples."""

    url: str
    fired: Counter[str]

    keyed: bool
    log: Log
    contract: Contract  # for the next run
    all_tables: tuple[Table, ...]  # the most that the contract has
    ledger: Ledger
    session: psycopg.Connection[Any]
    runs: list[Run]  # the live ones; at most one of them is the owner
    owner: Run | None
    halted: str | None  # the halt's code
    settling: bool  # positions may go back
    kept: list[Span]  # the spans that were read of logs no longer read
    committed: dict[int, tuple[int, str]]  # by batch: epoch and owner
    counted: CountedMessages
    failures: Counter[int]  # that count, by id of the pending batch
    applied: bool  # a person has applied a contract
    died: bool  # the last owner died unreported; no run has taken over since
    pruned: dict[str, list[Any]]  # the pruned rows, by table
    seen: Seen  # after the last step

    # The steps of the owner, and their expected outcomes.

    def _next_step(self, run: Run, *, losers: bool = False) -> bool:
        """Plan, stage or publish, whichever is next. Return True if there is nothing to read."""
        if run.staged:
            self._publish(run)
        elif run.pending:
            self._stage(run, losers=losers)
        else:
            return self._plan(run)
        return False

    def _go_on(self, until: str, *, losers: bool = False) -> None:
        """Let the owner, or a new run, continue to that step, if it gets that far."""
        if self.owner is None:
            self._start(survives=True)
        while self.owner and not self._next_step(self.owner, losers=losers) and self.owner:
            if until == ("staged" if self.owner.staged else "planned" if self.owner.pending else "published"):
                return

    def _plan(self, run: Run) -> bool:
        seen = self.look()
        known = seen["source_position"]
        if self.log.behind:  # and all partitions are known
            self._stale(run, run.plan)
            return False
        code = self._code([_place(p) for p in known])
        guessed = run.ahead is not None and run.ahead.speculative is not None
        waits = code or seen["pipeline"]["pending"] or (self.keyed and self._draining(known))
        read = {p["partition"] for p in known}
        new = bool(read) and not waits and any(part.low for part in self._added(read))  # they are read from 0
        try:
            pending = run.plan()
        except Halt as halt:
            self._halt(run, halt, code or ("retention_passed" if new else None))
            return False
        assert code is None
        assert not new
        assert (pending is not None) == self._lagging()
        self.fired["thrown away"] += guessed and not run.guessed
        return pending is None

    def _stage(self, run: Run, *, losers: bool) -> None:
        assert run.pending
        readable = run.guessed or all(map(self.log.holds, run.pending.ranges))
        self.fired["staged ahead of its turn"] += run.guessed
        try:
            run.stage(self.session, losers=losers)
        except OffsetsUnavailable:
            assert not readable
            self.fired["stage failed"] += 1
            self._end(run)
        else:
            assert readable

    def _publish(self, run: Run) -> None:
        if self._passes(run):
            self._commit(run)

    def _passes(self, run: Run) -> bool:
        """Audit as drain does; return True if the batch passes. Asserts the expected outcome."""
        assert run.pending
        expected = self.counted.verdict(self.log, run)
        try:
            run.audit()
        except Halt as halt:
            self._halt(run, halt, expected)
        except GateFailed:
            assert expected == "gate failed"
            self._fail(run, Counts.ALWAYS, counted=True)
            self._end(run)
        else:
            assert expected is None
            return True
        self.fired[str(expected)] += 1
        return False

    def _fail(self, run: Run, counts: Counts, *, counted: bool) -> None:
        """Back off as drain does. Only failures with a batch pending count."""
        if counted:
            self._one_more_failure()
        run.hold.back_off("an error", counts=counts)

    def _one_more_failure(self) -> None:
        if pending := self.look()["pipeline"]["pending"]:
            self.failures[pending["batch_id"]] += 1

    def _commit(self, run: Run) -> None:
        expected, held = self._refusal(), self._owner_key()
        if expected == "stale":
            self._stale(run, run.publish)
            return
        try:
            batch_id = self._unchanged(run.publish) if expected else run.publish()
        except Halt as halt:
            self._halt(run, halt, expected)
        except StagingLost:
            assert expected == "lost"
            self.fired["staging lost"] += 1
            self._end(run)
        except LogTruncated:
            assert expected == "truncated"
            self.fired["truncated since planned"] += 1
            self._end(run)
        else:
            assert expected is None
            self.committed[batch_id] = held
            self.counted.published(self.log, run)
            self.fired["published"] += 1
            self._positions_know_their_leaders(run)
            continues(run, self.look()["pipeline"]["pending"])
            if len(self.committed) % 3 == 1:
                with pytest.raises(Fenced, match="have changed since batch"):  # once is enough
                    self._unchanged(run.publish)
            run.forget()

    def _positions_know_their_leaders(self, run: Run) -> None:
        """Assert that each moved position has the epoch of the leader that the plan saw. A newer epoch would hide a
        later truncation of the log; an older one would make this log look truncated.
        """
        assert run.pending
        moved = {item.partition for item in run.pending.ranges}
        found = {p["partition"]: p["leader_epoch"] for p in self.look()["source_position"]}
        assert {number: found[number] for number in moved} == {number: run.epochs[number] for number in moved}

    def _refusal(self) -> str | None:
        """Return why the owner's staged batch must not be published: a halt's code, "stale", "truncated", "lost", or
        None.
        """
        assert self.owner
        pending = self.owner.pending
        assert pending
        if self.owner.truncated:
            return "truncated"
        if self.log.behind and any(item.partition == len(self.log.now.parts) - 1 for item in pending.ranges):
            return "stale"
        # Retention may have passed since: the messages are already read.
        code = self._code(list(map(pending.position, pending.ranges)))
        if code not in (None, "retention_passed"):
            return code
        return "lost" if self.owner.lost else None

    def _code(self, starts: Sequence[Position]) -> str | None:
        """Return the code of the halt that reading from these positions must cause, or None."""
        now = self.log.now
        if any(at.topic != self.log.topic for at in starts):
            return "topic_changed"
        if any(at.cluster_id != now.cluster_id for at in starts):
            return "cluster_switched"
        if any(at.topic_id != now.topic_id for at in starts):
            return "topic_recreated"
        passed = any(at.next_offset < now.parts[at.partition].low for at in starts)
        return "retention_passed" if passed else None

    def _stale(self, run: Run, call: Callable[[], Any]) -> None:
        """Assert that the call rejects a stale broker's response: it changes nothing, and the run ends."""
        with pytest.raises(BrokerAway, match="is stale"):
            self._unchanged(call, run.hold.holder.epoch)
        self.fired["stale"] += 1
        self._end(run)

    def _draining(self, known: Sequence[Mapping[str, Any]]) -> bool:
        """Return True if added partitions wait for others; those added since wait for both."""
        parts = self.log.now.parts
        return any(p["next_offset"] < min(p["seen_end"] or 0, parts[p["partition"]].end) for p in known)

    def _added(self, known: set[int]) -> Sequence[Part]:
        """Return the partitions to add next: for an upsert at most as many as it has, besides empty ones."""
        new = [part for number, part in enumerate(self.log.now.parts) if number not in known]
        many = len(known) if self.keyed else len(new)
        while many < len(new) and not any(part.end for part in new[:many]):
            many = 2 * many + len(known)
        return new[:many]

    def _lagging(self) -> bool:
        at = {span.partition: span.until for span in positions(self.look())}
        return any(at.get(number, 0) < part.end for number, part in enumerate(self.log.now.parts))

    def _halt(self, run: Run, halt: Halt, expected: str | None) -> None:
        """Halt as drain does. The run stays alive and may try anything."""
        assert halt.code == expected
        run.hold.halt(halt.detail)
        self.fired[halt.code] += 1
        self.halted, self.owner = halt.code, None

    def _start(self, *, survives: bool) -> None:
        """Start a run. The sessions of the run that it fences are ended; with `survives`, that run has opened another
        one.
        """
        if self.halted:
            with pytest.raises(Halt):
                acquire(self.ledger.url, self.contract)
            return
        if self._note_death():
            return
        if self.seen and self.contract.accumulates and left_out(self.look(), self.all_tables[-1].name):
            with pytest.raises(BadInput, match=r"was last written by.*tidegate replay"):
                acquire(self.ledger.url, self.contract)
            self.contract = next_version(self.contract, tables=self.all_tables[:1])
            self.fired["left out"] += 1
        fenced, self.owner = self.owner, Run(acquire(self.ledger.url, self.contract), self.log)
        self.runs.append(self.owner)
        if fenced and survives:
            fenced.hold.connection.close()
            fenced.hold.connection = connect(self.url, "a zombie")
        elif fenced:
            with pytest.raises(LedgerAway):
                fenced.hold.positions()
            self._gone(fenced)

    def _note_death(self) -> bool:
        """Count the last owner's death, if any. Return True if it is one too many and halts the pipeline."""
        died, self.died = self.died, False
        if not died or not (pending := self.look()["pipeline"]["pending"]):
            return False
        self._one_more_failure()
        if self.failures[pending["batch_id"]] < DEATHS:
            return False
        with pytest.raises(Halt) as halt:
            acquire(self.ledger.url, self.contract)
        self.halted = halt.value.code
        assert self.halted == "keeps_failing"
        self.fired["died too often"] += 1
        return True

    def _settle_log(self, start: ResumeAt, *, again: bool = False) -> None:
        raise NotImplementedError

    def _settle_gate(self, batch: BatchChoice, start: ResumeAt = "beginning") -> None:
        """Decide about the pending batch. If the log no longer has it, nothing is decided but where to resume."""
        try:
            decided = self._unchanged(lambda: settlement.propose(self.contract, self.ledger, self.log, None, batch))
        except BrokerAway:
            assert self.log.behind
            return
        except BadInput:
            self.fired["log changed before a decision"] += 1
            self._settle_log(start)
            return
        assert decided
        settlement.settle(self.url, self.contract, decided, "the model", "nobody")
        self.owner, self.halted, self.died, self.counted.tries = None, None, False, Counter()
        self.failures.clear()
        self.fired[f"failed check: {batch}"] += 1

    # Runs that do not own the pipeline, and the ends of runs.

    def _rival(self, what: str) -> None:
        """Start another run while the outcome of a COMMIT is unknown; it may commit a batch at once."""
        if what != "no":
            assert self.owner
            self._gone(self.owner, died=True)
            if self._note_death():
                return
            self.owner = Run(acquire(self.ledger.url, self.contract), self.log)
            self.runs.append(self.owner)
        if what == "committing":
            self._go_on("published")

    def _refused(self, run: Run, call: Callable[[], Any]) -> None:
        """Assert that the call changes nothing; it may raise an error."""
        try:
            self._unchanged(call, run.hold.holder.epoch)
        except (BrokerAway, Fenced, Halt, LogTruncated, OffsetsUnavailable, StagingLost) as error:
            self.fired[f"refused: {type(error).__name__}"] += 1

    def _unchanged(self, call: Callable[[], Any], epoch: int = -1) -> Any:
        """Return the call's result and assert that it leaves tables and ledger unchanged. It may sweep what runs up to
        `epoch` left.
        """
        before = self.look()
        try:
            return call()
        finally:
            now = self.look()
            for seen in (before, now):
                seen["staging"][:] = [row for row in seen["staging"] if row["epoch"] > epoch]
            assert now == before, "whoever had no right to it changed tables or ledger"

    def _end(self, run: Run) -> None:
        run.hold.close()
        self._gone(run)

    def _gone(self, run: Run, *, died: bool = False) -> None:
        """Remove the run. With `died`, it has reported nothing to the ledger; the next run finds that its session is
        gone.
        """
        run.hold.connection.close()
        self.runs = [other for other in self.runs if other is not run]
        if run is self.owner:
            self.owner, self.died = None, died
            while died and self.ledger.status(self.contract.pipeline).held:
                continue

    def _others(self) -> list[Run]:
        return [run for run in self.runs if run is not self.owner]

    def _staging_table(self, staging_id: int) -> str:
        asked = "SELECT table_id FROM tidegate.staging WHERE staging_id = %s"
        (table_id,) = self.session.execute(asked, [staging_id]).fetchone() or (0,)
        return f"tidegate_staging.rows_{table_id}"

    @property
    def _known(self) -> bool:
        """True if the pipeline reads the current log."""
        return any(span.topic_id == self.log.now.topic_id for span in positions(self.seen))

    def _owner_key(self) -> tuple[int, str]:
        assert self.owner
        return self.owner.hold.holder.epoch, str(self.owner.hold.holder.owner)

    def look(self) -> Seen:
        """Return tables and ledger with the pruned rows still present."""
        return self.with_pruned(self.left())

    def with_pruned(self, left: Seen) -> Seen:
        """Return tables and ledger with the pruned rows added."""
        return {**left, **{table: [*rows, *left[table]] for table, rows in self.pruned.items()}, "pruned": True}

    def left(self) -> Seen:
        """Return tables and ledger as they are."""
        return look(self.session, replace(self.contract, tables=self.all_tables))


def _place(row: Mapping[str, Any]) -> Position:
    """Return the position in a row of tidegate.source_position."""
    return Position(row["partition"], row["cluster_id"], row["topic_id"], row["next_offset"], topic=row["topic"])
