"""The state machine: whatever happens to a topic, its runs and its database, in any order, and what must then hold.

A run goes step by step (plan, stage, publish), and between its steps anything may happen to it. What each step of the
pipeline's owner must come to is predicted; whoever is not the owner must change nothing. After every step,
`seen.check`.
"""

import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from platform_defs.errors import Fenced, LedgerAway, OutcomeUnknown, Retryable
from platform_defs.halts import RetentionPassed
from platform_defs.offsets import OffsetRange, Position
from platform_defs.operations import settlement
from resources.postgres.connection import connect
from resources.postgres.ledger import Ledger
from tests.model.expectations import Expectations
from tests.model.log import Log
from tests.model.runs import DyingInCommit, new_contract
from tests.model.seen import check, positions

some = st.integers(0, 5)  # which one: modulo how many there are
Draw = Callable[..., Any]
EVENTS: dict[str, tuple[int, Callable[["Machine"], Any]]] = {}


def event(often: int, when: Callable[["Machine"], Any] = lambda _: True) -> Callable[..., Any]:
    """The decorated method may be the next thing that happens, as `often` as that beside the others, `when` it can."""

    def register(method: Any) -> Any:
        EVENTS[method.__name__] = often, when
        return method

    return register


messages = st.lists(
    st.tuples(some, st.sampled_from(["row", "row", "row", "bad", "gone", "gap"])), min_size=1, max_size=5
)


class Machine(Expectations):
    """Give it a database and a counter by way of a subclass."""

    @initialize(keyed=st.booleans(), partitions=st.integers(1, 2), batch_messages=st.integers(2, 8))
    def begin(self, keyed: bool, partitions: int, batch_messages: int) -> None:
        self.keyed, self.log = keyed, Log(partitions)
        self.contract = new_contract(f"m{uuid4().hex[:10]}", keyed=keyed, batch_messages=batch_messages)
        self.ledger, self.session = Ledger(self.url), connect(self.url, "the model")
        self.runs, self.owner, self.halted, self.settling = [], None, None, False
        self.kept, self.committed, self.seen = [], {}, {}
        self._start(survives=True)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One of the things that can happen now. (Not a rule each: hypothesis would leave half of them out of an
        example.)
        """
        able = [name for name, (often, when) in EVENTS.items() for _ in range(often) if when(self)]
        getattr(self, data.draw(st.sampled_from(able), label="what"))(data.draw)

    # What happens to the topic.

    @event(5, lambda self: sum(part.end for part in self.log.now.parts) < 40)
    def produce(self, draw: Draw) -> None:
        where, count = draw(some), len(self.log.now.parts)
        for key, kind in draw(messages):  # a key stands in one partition
            deletes = kind == "gone" and not self.keyed
            self.log.produce((key if self.keyed else where) % count, f"key {key}", "bad" if deletes else kind)

    @event(1, lambda self: self._known and len(self.log.now.parts) < 3)
    def add_partitions(self, _draw: Draw) -> None:
        """Where rows have keys, their number is doubled: only then do keys move to new partitions and to no old one."""
        for _ in range(len(self.log.now.parts) if self.keyed else 1):
            self.log.add_partition()
        self.fired["partitions added"] += 1

    @event(2)
    def delete_records(self, draw: Draw) -> None:
        part = self.log.now.parts[draw(some) % len(self.log.now.parts)]
        part.low = min(part.end, part.low + draw(st.integers(1, 4)))

    @event(1, lambda self: self._known)
    def create_again(self, draw: Draw) -> None:
        """The new log ends below, at, or above where the old one was read to. Or the address leads to another
        cluster.
        """
        at = {span.partition: span.until for span in positions(self.seen)}
        partitions, more = draw(st.integers(1, 2)), draw(st.integers(-1, 1))
        self.log.create(draw(st.sampled_from(["here", "there"])), partitions)
        for number in range(partitions):
            for _ in range(at.get(number, 1) + more):
                self.log.produce(number, f"key {number}", "row")

    @event(2, lambda self: self.log.now.cluster_id == "there" and not self._known)
    def lead_back(self, _draw: Draw) -> None:
        """The address leads to the cluster that the positions are of again."""
        if read := positions(self.seen):
            self.log.now = self.log.generations[read[0].topic_id]
            self.fired["led back"] += 1

    # What runs do, and what is done to them.

    @event(1)
    def start(self, draw: Draw) -> None:
        """A run begins. The sessions of the one that it fences are ended, or it has opened another by then."""
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

    @event(2, lambda self: self.owner and self.owner.staged)
    def overtake(self, _draw: Draw) -> None:
        """A second run starts when the first one has staged; the first one publishes before the second one has
        planned.
        """
        first = self.owner
        assert first
        self._start(survives=True)
        self._refused(first, first.publish)

    @event(5, lambda self: self._others())
    def be_refused(self, draw: Draw) -> None:
        """Who was fenced, or halted the pipeline, tries all that it can do."""
        run = self._others()[draw(some) % len(self._others())]
        view, one = self.log.describe(""), OffsetRange(self.contract.topic, 0, 0, 1)
        position = Position(7, view.cluster_id, view.topic_id, 0)
        for what in (
            run.copied().plan,
            lambda: run.copied().stage(self.session) if run.pending else None,
            lambda: run.publish() if run.staged else None,
            lambda: run.hold.fix(view, [one]),
            lambda: run.hold.add_positions([position], [position]),
            run.hold.sweep,
        ):
            self._refused(run, what)
        if run.hold.holder.epoch < self.look()["pipeline"]["epoch"]:  # who halted it still owns its row
            self._refused(run, lambda: run.hold.halt(RetentionPassed()))
            self._refused(run, run.hold.back_off)
            self._refused(run, run.hold.close)
        self._gone(run)

    @event(2, lambda self: self.owner)
    def stop(self, draw: Draw) -> None:
        how = draw(st.sampled_from(["killed", "closed", "gate failed"]))
        assert self.owner
        if how == "gate failed":
            self.owner.hold.back_off()
        if how != "killed":
            self.owner.hold.close()
        self._gone(self.owner)

    @event(4, lambda self: self.owner and self.owner.staged and not self._refusal())
    def die_in_commit(self, draw: Draw) -> None:
        """The connection goes in COMMIT; before the run has asked what became of it, another may have come."""
        run, held = self.owner, self._owner_key()
        assert run
        arrives, away = draw(st.booleans(), "arrives"), draw(st.booleans(), "away")
        rival = draw(st.sampled_from(["no", "starting", "committing"]), "rival")
        batch_id = run.pending.batch_id  # pyright: ignore[reportOptionalMemberAccess]
        if arrives:
            self.committed[batch_id] = held
        run.hold.connection = DyingInCommit(run.hold.connection, arrives, lambda: self._rival(rival))  # pyright: ignore
        if away:
            run.hold.url = "postgresql://nobody@127.0.0.1:1/nothing"
        if arrives and not away:
            assert run.publish() == batch_id
        else:
            with pytest.raises(OutcomeUnknown if away else Fenced if rival == "starting" else LedgerAway):
                run.publish()
        self.fired[
            f"COMMIT {'arrived' if arrives else 'lost'}, {rival} rival, Postgres {'away' if away else 'there'}"
        ] += 1
        self._gone(run)

    # What happens to the database.

    @event(4, lambda self: self.owner and self.owner.staged)
    def lose_staging(self, draw: Draw) -> None:
        """A recovery empties all that is unlogged, before publish. Each part alone: each has to be noticed by
        itself.
        """
        assert self.owner
        staged = self.owner.staged
        assert staged
        here = f"WHERE staging_id = {staged.staging_id}"
        parts = [f"rows_{staged.staging_id}"] * (staged.rows > 0) + [f"dead_letter {here}"] * (staged.dead_letters > 0)
        number = draw(st.integers(0, len(parts)), "part")
        self.session.execute(f"DELETE FROM tidegate_staging.{[*parts, f'coverage {here}'][number]}")  # pyright: ignore
        self.owner.lost = True
        self._publish(self.owner)

    @event(2, lambda self: self.owner and self.owner.staged and not self._refusal())
    def move_a_position_by_hand(self, _draw: Draw) -> None:
        """Somebody gives up the next offset in SQL, as with other tools: skip, position and pending, but no epoch."""
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
                "UPDATE tidegate.source_position SET next_offset = next_offset + 1 WHERE"
                " pipeline = %(name)s AND partition = %(partition)s",
                here,
            )
            self.session.execute("UPDATE tidegate.pipeline SET pending = NULL WHERE name = %(name)s", here)
        with pytest.raises(Fenced, match="no longer where batch"):
            self._unchanged(self.owner.publish)
        self.fired["moved by hand"] += 1
        self.owner.forget()

    # What a person decides.

    @event(4, lambda self: self.halted)
    def settle(self, draw: Draw) -> None:
        self._settle(draw(st.sampled_from(["beginning", "end"])), again=draw(st.booleans()))

    def _settle(self, start: settlement.NewLogStart, *, again: bool) -> None:
        before = positions(self.look())
        decided = settlement.propose(self.contract, self.ledger, self.log, start)
        assert decided
        settlement.settle(self.url, self.contract, decided, "the model", "nobody")
        self.settling, self.halted = True, None
        self.fired["settled"] += 1
        now = {span.partition: span.topic_id for span in positions(self.look())}
        self.kept += [span for span in before if now.get(span.partition) != span.topic_id]
        if again:
            with pytest.raises(Retryable, match="no longer as it was shown"):
                self._unchanged(lambda: settlement.settle(self.url, self.contract, decided, "twice", "nobody"))

    # What must hold.

    @invariant()
    def all_holds(self) -> None:
        seen = self.look()
        check(seen, self.log, self.kept, keyed=self.keyed)
        batches = {b["batch_id"]: (b["epoch"], b["owner"]) for b in seen["batch"]}
        assert batches == self.committed
        assert seen["pipeline"]["halt_code"] == self.halted
        if self.seen and not self.settling:
            was = {span.partition: span for span in positions(self.seen)}
            for span in positions(seen):  # I3
                old = was.pop(span.partition, span)
                assert (span.topic_id, span.start) == (old.topic_id, old.start)
                assert span.until >= old.until
            assert not was
        self.seen, self.settling = seen, False

    def teardown(self) -> None:
        """I7: with nothing more in the way, all is read."""
        try:
            if sys.exc_info()[0] is None and hasattr(self, "contract"):
                self._catch_up()
        finally:
            for held in [run.hold.connection for run in getattr(self, "runs", [])]:
                held.close()
            if hasattr(self, "session"):
                self.session.close()

    def _catch_up(self) -> None:
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

    def _go_on(self, until: str, *, losers: bool = False) -> None:
        """The owner, or a new run, continues until then, if it gets that far."""
        if self.owner is None:
            self._start(survives=True)
        while self.owner and not self._next_step(self.owner, losers=losers) and self.owner:
            if until == ("staged" if self.owner.staged else "planned" if self.owner.pending else "published"):
                return
