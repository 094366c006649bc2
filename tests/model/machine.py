"""The state machine: events in any order on a topic, its runs and its database, and the invariants.

A run goes step by step (plan, stage, publish), and any event may happen between its steps. The model predicts the
outcome of each step of the pipeline's owner; other runs must change nothing. `seen.check` runs after every step.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from platform_defs.engine.lease.pauses import Counts
from platform_defs.errors import BrokerAway, ChangedMeanwhile, Fenced, LedgerAway, OutcomeUnknown, Retryable
from platform_defs.errors.halts import RetentionPassed
from platform_defs.ledger.ledger import Ledger
from platform_defs.offsets import OffsetRange, Position
from platform_defs.postgres.connection import connect
from platform_defs.prune.prune import prune
from platform_defs.resolve import settlement, split_batch
from platform_defs.resolve.choices import BatchChoice, ResumeAt
from tests.model.counted import CountedMessages
from tests.model.log import Log
from tests.model.runs import DyingInCommit, new_contract
from tests.model.seen import PRUNED, Span, check, check_pruned, positions
from tests.model.topic_events import EVENTS, Draw, TopicEvents, event, some

ENDS = {"closed": None, "gate failed": Counts.ALWAYS, "system away": Counts.NEVER}  # of runs that end by themselves
CHANGES = {  # changes by a server that crashes or restarts
    "crash": "DELETE FROM tidegate_staging.holder WHERE pipeline = %s",
    "restart": "UPDATE tidegate.pipeline SET server_started = server_started - interval '1 hour' WHERE name = %s",
}


class Machine(TopicEvents):
    """The state machine. A subclass gives it a database and a counter."""

    path: tuple[str, ...] = ()  # events that reveal a fault if they happen in this order, round after round
    at: int = 0  # the number of them that have happened

    @initialize(keyed=st.booleans(), partitions=st.integers(1, 2), batch_messages=st.integers(2, 8))
    def begin(self, keyed: bool, partitions: int, batch_messages: int) -> None:
        self.contract = new_contract(f"m{uuid4().hex[:10]}", keyed=keyed, batch_messages=batch_messages)
        self.keyed, self.all_tables, self.log = keyed, self.contract.tables, Log(self.contract.topic, partitions)
        self.ledger, self.session = Ledger(self.url), connect(self.url, "the model")
        self.runs, self.owner, self.halted, self.settling, self.died = [], None, None, False, False
        self.applied = False
        self.kept, self.committed, self.failures, self.seen, self.counted = [], {}, Counter(), {}, CountedMessages()
        self.pruned = {table: [] for table in PRUNED}
        self._start(survives=True)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Fire one of the possible events: with probability 3/4 the next one of the path. (With a rule for each,
        hypothesis would leave half of them out of an example.)
        """
        able = [name for name, (often, when) in EVENTS.items() for _ in range(often or name in self.path) if when(self)]
        ahead = [at for at in range(self.at, self.at + len(self.path)) if self.path[at % len(self.path)] in able]
        if ahead and data.draw(st.integers(0, 3), label="off the path at 0"):
            what, self.at = self.path[ahead[0] % len(self.path)], ahead[0] + 1
        else:
            what = data.draw(st.sampled_from(able), label="what")
        getattr(self, what)(data.draw)

    # Events of runs.

    @event(1)
    def start(self, draw: Draw) -> None:
        """Start a run. The sessions of the run that it fences are ended, or that run has opened another by then."""
        self._start(survives=draw(st.booleans()))

    @event(2, lambda self: not self.halted)
    def plan_a_batch(self, _draw: Draw) -> None:
        self._go_on("planned")

    @event(4, lambda self: not self.halted)
    def stage_a_batch(self, draw: Draw) -> None:
        self._go_on("staged", losers=draw(st.booleans()))

    @event(4, lambda self: not self.halted)
    def publish_a_batch(self, draw: Draw) -> None:
        self._go_on("published", losers=draw(st.booleans()))

    @event(4, lambda self: self.owner and self.owner.staged)
    def stage_ahead(self, _draw: Draw) -> None:
        """Let the owner stage the speculative batch after its staged one, if that is worth it."""
        assert self.owner
        if self.owner.ahead is None or self.owner.ahead.speculative is None:
            self.fired["staged ahead"] += self.owner.stage_ahead(self.session)

    @event(2, lambda self: self.owner and self.owner.staged)
    def overtake(self, _draw: Draw) -> None:
        """Start a second run once the first one has staged; the first publishes before the second has planned."""
        first = self.owner
        assert first
        self._start(survives=True)
        self._refused(first, first.publish)

    @event(5, lambda self: self._others())
    def be_refused(self, draw: Draw) -> None:
        """Let a run that was fenced, or that halted the pipeline, try everything that it can do."""
        run = self._others()[draw(some) % len(self._others())]
        view, one = self.log.describe(""), OffsetRange(self.contract.topic, 0, 0, 1)
        position = Position(7, view.cluster_id, view.topic_id, 0)
        for what in (
            run.copied().plan,
            lambda: run.copied().stage(self.session) if run.pending else None,
            lambda: run.publish() if run.staged else None,
            lambda: run.hold.fix(view, [one]),
            lambda: run.hold.add_positions([position], [position]),
            lambda: run.hold.note_row_local("of a fenced run"),
            lambda: run.hold.mark(1, {"suspects": []}),
            run.hold.sweep,
        ):
            self._refused(run, what)
        if run.hold.holder.epoch < self.look()["pipeline"]["epoch"]:  # the run that halted it still owns its row
            self._refused(run, lambda: run.hold.halt(RetentionPassed()))
            self._refused(run, lambda: run.hold.back_off("an error"))
            self._refused(run, run.hold.close)
        self._gone(run)

    @event(2, lambda self: self.owner)
    def stop(self, draw: Draw) -> None:
        how = draw(st.sampled_from(["killed", *ENDS]))
        run = self.owner
        assert run
        if how == "killed":
            self._gone(run, died=True)
            return
        if counts := ENDS[how]:
            self._fail(run, counts, counted=counts is Counts.ALWAYS)
        self._end(run)

    @event(2, lambda self: self.owner)
    def lose_the_session(self, draw: Draw) -> None:
        """End the session: cut, ended by command, or lost because the server crashed or was stopped. The run reports it
        in another session, or, if the server was away for too long, does not report it.
        """
        run, how = self.owner, draw(st.sampled_from(["cut", "ended", "crash", "restart"]))
        assert run
        if how in CHANGES:
            self.session.execute(CHANGES[how].encode(), [self.contract.pipeline])
        run.hold.connection.close()
        if how == "restart" and draw(st.booleans()):
            self._gone(run)
            return
        reported = Counts.UNLESS_STOPPED if how in ("ended", "restart") else Counts.IF_CRASHED
        self._fail(run, reported, counted=how in ("ended", "crash"))
        self.fired[f"session lost: {how}"] += 1
        self._end(run)

    @event(4, lambda self: self.owner and self.owner.staged and not self._refusal())
    def die_in_commit(self, draw: Draw) -> None:
        """Lose the connection in COMMIT; another run may start before this one has queried the outcome."""
        run, held = self.owner, self._owner_key()
        assert run
        arrives, away = draw(st.booleans(), "arrives"), draw(st.booleans(), "away")
        rival = draw(st.sampled_from(["no", "starting", "committing"]), "rival")
        batch_id = run.pending.batch_id  # pyright: ignore[reportOptionalMemberAccess]
        if not self._passes(run):
            return
        if arrives:
            self.committed[batch_id] = held
            self.counted.published(self.log, run)
        run.hold.connection = DyingInCommit(run.hold.connection, arrives, lambda: self._rival(rival))  # pyright: ignore
        if away:
            run.hold.url = "postgresql://nobody@127.0.0.1:1/nothing"
        if arrives and not away:
            assert run.publish() == batch_id
        else:
            with pytest.raises((OutcomeUnknown, Fenced, LedgerAway)) as refused:
                run.publish()
            overtaken = rival != "no" and batch_id not in self.committed  # a rival may come no further than a halt
            assert refused.type is (OutcomeUnknown if away else Fenced if overtaken else LedgerAway)
        self.fired[
            f"COMMIT {'arrived' if arrives else 'lost'}, {rival} rival, Postgres {'away' if away else 'there'}"
        ] += 1
        self._gone(run, died=True)

    # Events of the database.

    @event(6, lambda self: self.owner and self.owner.staged)
    def lose_staging(self, draw: Draw) -> None:
        """Empty unlogged tables before publish, as a recovery does. Each part alone: each loss must be noticed by
        itself. Or make the staged rows those of offsets that were not planned.
        """
        assert self.owner
        staged = self.owner.staged
        assert staged
        rows = self._staging_table(staged.staging_id)
        here = f"WHERE staging_id = {staged.staging_id}"
        ways = [f"DELETE FROM {rows}", f"UPDATE {rows} SET _offset = _offset + 1000"] * (staged.rows > 0)
        ways += [f"DELETE FROM tidegate_staging.dead_letter {here}"] * (staged.dead_letters > 0)
        ways += [f"DELETE FROM tidegate_staging.coverage {here}"]
        way = ways[draw(st.integers(0, len(ways) - 1), "way")]
        self.session.execute(way.encode())
        self.owner.lost = "rows" if way == f"DELETE FROM {rows}" else "more"
        self._publish(self.owner)

    @event(3, lambda self: self.owner and self.owner.staged and self.owner.staged.rows)
    def wake_a_straggler(self, _draw: Draw) -> None:
        """Let a delayed task of an earlier attempt COPY what it read into a table that another attempt uses."""
        assert self.owner
        assert self.owner.staged
        table = self._staging_table(self.owner.staged.staging_id)
        for statement in (
            f"CREATE TEMP TABLE stray AS TABLE {table}",
            "UPDATE stray SET number = 13, _attempt = gen_random_uuid()",
            f"INSERT INTO {table} TABLE stray",
            "DROP TABLE stray",
        ):
            self.session.execute(statement.encode())
        self.fired["straggler"] += 1
        self._publish(self.owner)

    @event(4, lambda self: self.owner and self.owner.staged and not self._refusal())
    def move_a_position_by_hand(self, _draw: Draw) -> None:
        """Skip the next offset in SQL, as other tools do: skip, position and pending change, but not the epoch."""
        assert self.owner
        assert self.owner.pending
        here = {"name": self.contract.pipeline, "partition": self.owner.pending.ranges[0].partition}
        with self.session.transaction():
            self.session.execute(
                "INSERT INTO tidegate.declared_skip (pipeline, topic_id, partition, from_offset, until_offset, reason,"
                " declared_by) SELECT pipeline, topic_id, partition, next_offset, next_offset + 1, '', '' FROM"
                " tidegate.source_position WHERE pipeline = %(name)s AND partition = %(partition)s",
                here,
            )
            self.session.execute(
                "UPDATE tidegate.source_position SET next_offset = next_offset + 1, leader_epoch = NULL WHERE"
                " pipeline = %(name)s AND partition = %(partition)s",
                here,
            )
            self.session.execute(
                "UPDATE tidegate.pipeline SET pending = NULL, batch_failures = 0 WHERE name = %(name)s", here
            )
        with pytest.raises(Fenced, match="have changed since batch"):
            self._unchanged(self.owner.publish)
        self.fired["moved by hand"] += 1
        self.owner.forget()

    @event(2, lambda self: self.committed)
    def prune(self, _draw: Draw) -> None:
        """Prune at any time. Everything is older than the retention, and reported."""
        here = [self.contract.pipeline]
        self.session.execute("UPDATE tidegate.batch SET reported_at = now() WHERE pipeline = %s", here)
        before = self.left()
        contract = replace(self.contract, limits=replace(self.contract.limits, retention_seconds=0.0))
        done = prune(self.url, contract, self.log.describe, execute=True)
        left = self.left()
        for table, rows in self.pruned.items():
            rows += [row for row in before[table] if row not in left[table]]
        if done.batches:
            self.fired["pruned"] += 1

    # Decisions of a person.

    @event(4, lambda self: self.halted)
    def settle(self, draw: Draw) -> None:
        self._settle(draw(st.sampled_from(["beginning", "end"])), again=draw(st.booleans()))

    def _settle(self, start: ResumeAt, *, again: bool) -> None:
        if self.halted == "blocking_check_failed":
            self._settle_gate("publish" if start == "beginning" else "dead-letters", start)
            return
        # All partitions are known: none is forgotten because a response lacks it.
        if self.log.behind and self.halted not in ("too_many_dead_letters", "keeps_failing"):
            with pytest.raises(BrokerAway, match="is stale"):
                self._unchanged(lambda: settlement.propose(self.contract, self.ledger, self.log, start))
            self.fired["stale at resolve"] += 1
            return
        self._settle_log(start, again=again)

    def _settle_log(self, start: ResumeAt, *, again: bool = False) -> None:
        """Settle as the log requires, or the halt alone if the log has not changed."""
        before = positions(self.look())
        try:
            decided = self._unchanged(lambda: settlement.propose(self.contract, self.ledger, self.log, start))
        except BrokerAway:
            assert self.log.behind
            return
        assert decided
        settlement.settle(self.url, self.contract, decided, "the model", "nobody")
        self.owner, self.settling, self.halted, self.died, self.counted.tries = None, True, None, False, Counter()
        self.failures.clear()
        self.fired["settled"] += 1
        self._keep(before, positions(self.look()))
        if again:
            with pytest.raises(Retryable, match="has changed since this was shown"):
                self._unchanged(lambda: settlement.settle(self.url, self.contract, decided, "twice", "nobody"))

    def _keep(self, before: Sequence[Span], now: Sequence[Span]) -> None:
        """Keep what was read of logs no longer read. If such a log is read again, offsets behind all batches that a
        person skipped by hand are read after all.
        """
        reads = {span.partition: span.topic_id for span in now}
        starts = {(span.topic_id, span.partition): span.start for span in now}
        kept = [*self.kept, *(span for span in before if reads.get(span.partition) != span.topic_id)]
        ends = [min(span.until, starts.get((span.topic_id, span.partition), span.until)) for span in kept]
        self.kept = [replace(span, until=end) for span, end in zip(kept, ends, strict=True)]

    @event(8, lambda self: not self.halted and self.seen["pipeline"]["failed_checks"])
    def resolve_failed_checks(self, draw: Draw) -> None:
        """Resolve failed checks before they halt the pipeline. A run that is working on the batch is fenced.

        The decision also depends on the number of batches: hypothesis often draws the same one throughout an example.
        """
        decisions = get_args(BatchChoice)
        self._settle_gate(decisions[(draw(some) + len(self.committed)) % len(decisions)])

    @event(0, lambda self: self.seen["pipeline"]["pending"] and self.halted in (None, "keeps_failing"))
    def split_the_batch(self, draw: Draw) -> None:
        """Split the offsets of the pending batch, and what it was split from, into smaller batches. A running run is
        fenced.
        """
        decided = split_batch.propose(self.ledger, self.contract.pipeline, 1 + draw(some) % 3)
        split_batch.cut(self.url, decided, "the model", "nobody")
        with pytest.raises(ChangedMeanwhile):
            self._unchanged(lambda: split_batch.cut(self.url, decided, "twice", "nobody"))
        self.owner, self.halted, self.died, self.counted.tries = None, None, False, Counter()
        self.failures.clear()
        self.fired["recut"] += 1

    # The invariants.

    @invariant()
    def all_holds(self) -> None:
        left = self.left()
        seen = self.with_pruned(left)
        check(seen, self.log, self.kept, self.counted.aside, keyed=self.keyed)
        check_pruned(seen, left, self.log)
        batches = {b["batch_id"]: (b["epoch"], b["owner"]) for b in seen["batch"]}
        assert batches == self.committed
        assert all(seen["contracts"].get(b["contract_digest"]) == b["contract_version"] for b in seen["batch"])
        in_force = seen["pipeline"]["contract_digest"]
        assert [item["digest"] for item in seen["applications"][-1:]] == ([in_force] if in_force else [])
        earlier = {b["batch_id"] for b in self.seen["batch"]} if self.seen else set[int]()
        newest = seen["applications"][-1]["number"] if in_force else None
        assert {b["contract_application"] for b in seen["batch"] if b["batch_id"] not in earlier} <= {newest}
        assert seen["pipeline"]["halt_code"] == self.halted
        pending = seen["pipeline"]["pending"]
        assert seen["pipeline"]["batch_failures"] == (self.failures[pending["batch_id"]] if pending else 0)
        if self.seen and not self.settling:
            was = {span.partition: span for span in positions(self.seen)}
            for span in positions(seen):  # I3
                old = was.pop(span.partition, span)
                assert (span.topic_id, span.start) == (old.topic_id, old.start)
                assert span.until >= old.until
            assert not was
        self.seen, self.settling = seen, False

    def teardown(self) -> None:
        """Assert I7: without further faults everything is read."""
        try:
            if sys.exc_info()[0] is None and hasattr(self, "contract"):
                self._catch_up()
        finally:
            for held in [run.hold.connection for run in getattr(self, "runs", [])]:
                held.close()
            if hasattr(self, "session"):
                self.session.close()

    def _catch_up(self) -> None:
        self.log.behind = False
        for _ in range(200):
            if self.halted:
                self._settle("beginning", again=False)
            elif self.owner is None:
                self._start(survives=True)
            elif self._next_step(self.owner):
                break
        self.settling = True  # it may have
        self.all_holds()
        at = {span.partition: span.until for span in positions(self.look())}
        assert at == {number: part.end for number, part in enumerate(self.log.now.parts)}
