"""Direct publication under any order of events: tasks from any attempt at a plan, of any run, at any time.

A task is the real one (engine/commit/direct_task.py), without Spark. Between its rows and its lock an event may happen:
another run takes over, another attempt at the range comes first, the topic is created again, Postgres recovers from a
crash. Its connection may fail in COMMIT. The model predicts the outcome; `seen.check` runs after each step.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine import batch
from platform_defs.engine.commit import direct_task
from platform_defs.engine.commit.direct_statements import DirectSession, PostgresDirect
from platform_defs.engine.commit.direct_task import Direct
from platform_defs.engine.direct import goes_direct, prepare
from platform_defs.engine.lease.lease import acquire
from platform_defs.engine.task.task import TaskWork
from platform_defs.errors import TidegateError
from platform_defs.ledger.ledger import Ledger
from platform_defs.offsets import PendingBatch, TopicView
from platform_defs.postgres.connection import connect
from tests.model.log import Log
from tests.model.runs import DyingInCommit, Run, new_contract
from tests.model.seen import Seen, check, look, positions

MOMENTS = ("nothing", "nothing", "takeover", "another attempt", "created again", "staging lost", "dies", "dies late")


def direct_contract(name: str, batch_messages: int) -> Contract:
    """Return the model's append contract without its rule and its accumulate."""
    contract = new_contract(name, keyed=False, batch_messages=batch_messages)
    limits = replace(contract.limits, dead_letter_minimum=1_000)
    return replace(contract, tables=(replace(contract.row_table, batch_rules=()),), publication="direct", limits=limits)


@dataclass
class Meanwhile:
    """The log that a task queries just before it publishes; an event happens first."""

    log: Log
    act: Callable[[], None]

    def describe(self, topic: str, partitions: Collection[int] | None = None, *, configured: bool = True) -> TopicView:
        self.act()
        return self.log.describe(topic, partitions, configured=configured)


@dataclass(frozen=True)
class Surviving:
    """The real area with a session that a new owner does not end. Its connection may fail in COMMIT."""

    real: PostgresDirect
    dies: bool = False
    arrives: bool = False

    @contextmanager
    def session(self) -> Iterator[DirectSession]:
        with closing(connect(self.real.url, "the model", settings={"lock_timeout": "5s"})) as connection:
            dying: Any = DyingInCommit(connection, self.arrives, lambda: None)
            yield DirectSession(self.real, dying if self.dies else connection)


@dataclass
class Try:
    """The inputs of the tasks in one attempt."""

    run: Run
    plan: PendingBatch
    direct: Direct
    work: TaskWork

    @property
    def area(self) -> PostgresDirect:
        area = self.direct.area
        assert isinstance(area, PostgresDirect)
        return area

    @property
    def batch_ids(self) -> tuple[int, ...]:
        return self.area.batch_ids


def _kept(seen: Seen) -> dict[str, Any]:
    """Return the state that only a committing batch may change."""
    return {name: seen[name] for name in ("rows", "source_position", "batch", "dead_letter", "batch_range")}


class DirectMachine(RuleBasedStateMachine):
    """The state machine. A subclass gives it a database and a counter."""

    url: str
    fired: Counter[str]

    @initialize(partitions=st.integers(1, 3), batch_messages=st.integers(2, 8))
    def begin(self, partitions: int, batch_messages: int) -> None:
        self.contract = direct_contract(f"m{uuid4().hex[:10]}", batch_messages)
        self.log, self.session = Log(self.contract.topic, partitions), connect(self.url, "the model")
        self.ledger, self.tries = Ledger(self.url), list[Try]()
        self.seen: Seen = {}
        self.published: dict[int, tuple[int, str]] = {}  # by batch: its epoch and owner at publication
        self.recreated, self.happened = False, ""
        self.run = self._run()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        able: list[Callable[[Callable[..., Any]], None]] = [self.produce, self.produce, self.take_over]
        able += [] if self.recreated else [self.plan, self.plan, self.stage_the_rest]
        able += [self.work_on] * 6 if self.tries else []
        data.draw(st.sampled_from(able), label="what")(data.draw)

    def produce(self, draw: Callable[..., Any]) -> None:
        partition = draw(st.integers(0, len(self.log.now.parts) - 1))
        for kind in draw(st.lists(st.sampled_from(["row", "row", "row", "bad", "gap"]), min_size=1, max_size=4)):
            self.log.produce(partition, "key", kind)

    def take_over(self, _draw: Callable[..., Any]) -> None:
        self.run = self._run()

    def plan(self, _draw: Callable[..., Any]) -> None:
        """Plan, perhaps again: the same ranges, less the published ones, under other batch ids."""
        self.run.hold.sweep()
        pending = batch.plan_batch(self.contract, self.run.context)
        if pending is not None and goes_direct(Pipeline(self.contract), pending):
            self.tries.append(self._try(pending))

    def stage_the_rest(self, _draw: Callable[..., Any]) -> None:
        """Publish what tasks have left, or all of it, as one staged batch."""
        if self.run.plan() is None:
            return
        staged = self.run.stage(self.session)
        self._expect(self.run.publish())
        self.fired["the rest"] += staged.pending.batch_id in {one.plan.batch_id for one in self.tries}

    def work_on(self, draw: Callable[..., Any]) -> None:
        """Run a task over a range from any attempt, of its own run or another, published or not."""
        one = self.tries[draw(st.integers(0, len(self.tries) - 1), "try")]
        self._work_on(one, draw(st.integers(0, len(one.plan.ranges) - 1), "range"), draw(st.sampled_from(MOMENTS)))

    def _work_on(self, one: Try, number: int, moment: str) -> None:
        wanted, batch_id, before = one.plan.ranges[number], one.batch_ids[number], self.look()
        planned, forgotten, recreated = wanted in self._planned(), self._is_forgotten(one), self.recreated
        done, ours = batch_id in self.published, self._owner() == self._key(one.run)
        self.happened = ""
        try:
            came = "left" if self._task(one, number, moment) else "done"
        except TidegateError as error:
            came = type(error).__name__
        self.fired[f"{self.happened or moment}: {came}"] += 1
        if done or not ours or recreated:
            assert came == "done" if done else came != "done"
            assert came == "Fenced" or done or ours
            assert _kept(self.look()) == _kept(before)
            return
        due = {"takeover": "Fenced", "created again": "left", "staging lost": "StagingLost"}.get(self.happened)
        if due is None and forgotten:
            due = "StagingLost"
        elif due is None and (not planned or self.happened == "another attempt"):
            due = "Fenced"
        assert came == (due or ("LedgerAway" if moment.startswith("dies") else "done"))
        if came == "done" or (due is None and moment == "dies late"):
            self._expect(batch_id)

    def _task(self, one: Try, number: int, moment: str) -> dict[int, str]:
        area: Any = Surviving(one.area, moment.startswith("dies"), moment == "dies late")
        log = Meanwhile(self.log, lambda: self._happens(one, number, moment))
        direct = replace(one.direct, area=area, broker=log)
        given = iter([pa.record_batch([pa.array([number], pa.int64())], names=["id"])])
        found = direct_task.publish_ranges(direct, one.work, given)
        return {row["number"]: row["why"] for part in found for row in part.to_pylist()}

    def _happens(self, one: Try, number: int, moment: str) -> None:
        if moment == "takeover":
            self.run = self._run()
        elif moment == "created again":
            self.log.create("here", len(self.log.now.parts))
            self.recreated = True
        elif moment == "staging lost":
            lost = f"DELETE FROM tidegate_staging.coverage WHERE staging_id = {one.work.area.staging_id}"
            self.session.execute(lost.encode())
        elif moment == "another attempt" and not self.recreated and one.plan.ranges[number] in self._planned():
            pending = self.run.hold.pending()
            assert pending is not None
            again, at = self._try(pending), pending.ranges.index(one.plan.ranges[number])
            assert self._task(again, at, "nothing") == {}
            self._expect(again.batch_ids[at])
        else:
            return
        self.happened = moment

    def _try(self, pending: PendingBatch) -> Try:
        direct, work = prepare(Pipeline(self.contract), self.run.context, pending)
        quiet = replace(work, area=replace(work.area, application_name="the model"))  # pyright: ignore  # Postgres'
        return Try(self.run, pending, direct, quiet)

    def _run(self) -> Run:
        """Return a run that takes over the pipeline; the sessions of the previous run stay open."""
        hold = acquire(self.ledger.url, self.contract)
        return Run(hold, self.log)

    def _expect(self, batch_id: int) -> None:
        self.published[batch_id] = self._owner()

    def _owner(self) -> tuple[int, str]:
        row = self.session.execute(
            "SELECT epoch, owner::text FROM tidegate.pipeline WHERE name = %s", [self.contract.pipeline]
        ).fetchone()
        assert row
        return row[0], row[1]

    def _key(self, run: Run) -> tuple[int, str]:
        return run.hold.holder.epoch, str(run.hold.holder.owner)

    def _planned(self) -> list[Any]:
        (pending,) = self.session.execute(
            "SELECT pending FROM tidegate.pipeline WHERE name = %s", [self.contract.pipeline]
        ).fetchone() or (None,)
        return list(PendingBatch.from_json(pending).ranges) if pending else []

    def _is_forgotten(self, one: Try) -> bool:
        """Return True if the attempt was swept: another one has begun."""
        asked = f"SELECT 1 FROM tidegate.staging WHERE staging_id = {one.work.area.staging_id}"
        return self.session.execute(asked.encode()).fetchone() is None

    def look(self) -> Seen:
        return look(self.session, self.contract)

    @invariant()
    def all_holds(self) -> None:
        if not hasattr(self, "session"):
            return
        seen = self.look()
        check(seen, self.log, [], set(), keyed=False)
        assert {b["batch_id"]: (b["epoch"], b["owner"]) for b in seen["batch"]} == self.published
        was = {span.partition: span.until for span in positions(self.seen)} if self.seen else {}
        at = {span.partition: span.until for span in positions(seen)}
        assert all(at[partition] >= until for partition, until in was.items())  # I3
        assert all(at[item.partition] == item.from_offset for item in self._planned())
        self.seen = seen

    def teardown(self) -> None:
        """Assert I7: without further faults everything is read, even if tasks were left in between."""
        if not hasattr(self, "session"):
            return
        try:
            if not self.recreated:
                self._catch_up()
        finally:
            for run in {id(one.run): one.run for one in self.tries}.values():
                run.hold.connection.close()
            self.run.hold.connection.close()
            self.session.close()

    def _catch_up(self) -> None:
        self.run = self._run()
        for _ in range(100):
            before = len(self.tries)
            self.plan(lambda *_: None)
            if len(self.tries) == before:
                break
            for number in range(len(self.tries[-1].plan.ranges)):
                self._work_on(self.tries[-1], number, "nothing")
        self.all_holds()
        assert {span.partition: span.until for span in positions(self.look())} == {
            number: part.end for number, part in enumerate(self.log.now.parts) if positions(self.look())
        }
