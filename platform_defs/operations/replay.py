"""Tables built anew beside the live ones, compared (`show`), put in their place (`execute`), or dropped (`discard`).

The building pipeline is one like any other: it has positions, batches and dead letters of its own in the ledger, under
the name `<pipeline>~replay`, and stops where the live one stands. What it may do is decided in engine/replay_plan.py;
how it is put in place, in one transaction, is in resources/postgres/replacement.py.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import inf

import psycopg
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from platform_defs.contract.pipeline import Pipeline
from platform_defs.engine import replay_plan
from platform_defs.engine.batch import Budget, Outside, drain
from platform_defs.engine.replay_plan import History, InTheNameOf, ReplayStart, UpTo
from platform_defs.errors import BadInput, Fenced, Halt, LedgerAway, Retryable
from platform_defs.offsets import Position, judge
from platform_defs.operations.open_run import open_run
from resources.endpoints import Endpoints
from resources.kafka.broker import KafkaBroker, offsets_at
from resources.postgres.connection import connect, database_errors
from resources.postgres.ledger import Ledger
from resources.postgres.replacement import Difference, Done, Replacement

TRIES = 3  # while another run of the pipeline comes between
WHOLE = Budget(batches=10**9, seconds=inf)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Shown:
    """A replay that is built up to the pipeline's position, and what it would change."""

    replay_id: int
    history: History
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Replay:
    """Everything that a person can do with a replay of one pipeline."""

    live: Pipeline
    endpoints: Endpoints
    spark: Callable[[], SparkSession]

    def first_batch(self, start: ReplayStart) -> int:
        """The batch that a replay from `start` begins with: batches are replayed whole. Raises BadInput."""
        self._ledger.migrate()
        name, ledger = self.live.name, self._ledger
        status = ledger.status(name)
        if status and status.state == "halted":
            raise BadInput(f"{name} is halted ({status.halt_code}); settle that first: tidegate ack {name}", field=name)
        bounds = ledger.replay_bounds(name)
        if bounds.first_batch is None:
            raise BadInput(f"{name} has published nothing yet: there is nothing to replay", field=name)
        found: int | None = bounds.first_batch
        if start.batch is not None:
            self._refuse_replaced(start.batch)
            found = ledger.next_batch(name, start.batch)
        elif start.offsets is not None or start.timestamp is not None:
            found = self._batch_of(start)
        if found is None:
            raise BadInput(
                f"no batch of {name} read anything from there on: there is nothing to replay", field="--from"
            )
        return found

    def show(self, from_batch: int, say: Say) -> Shown:
        """Build, or go on building, up to where the pipeline stands, and compare. The live tables stay as they are.

        Raises BadInput where it would lie, Retryable where the pipeline runs ahead faster than this follows.
        """
        with self._replacement.alone(self.endpoints.postgres_url):
            return self._show(from_batch, say)

    def execute(self, start: ReplayStart, reason: str, who: str, say: Say) -> Shown:
        """Build, catch up to the exact position as the pipeline's owner, and put all of it in place, or change nothing.

        Raises what `show` raises; Fenced when runs of the pipeline keep taking it over.
        """
        first = self.first_batch(start)
        with self._replacement.alone(self.endpoints.postgres_url):
            self._build(self._history(first), say)  # the long part, beside the pipeline as it runs
            trying = Retrying(retry=retry_if_exception_type(Fenced), stop=stop_after_attempt(TRIES), reraise=True)
            shown = trying(self._put_in_place, first, reason, who, say)
            self._drop_tables(say)
            return shown

    def discard(self) -> bool:
        """Drop what was built and not put in place. False when there is nothing."""
        self._ledger.migrate()
        url = self.endpoints.postgres_url
        with self._replacement.alone(url), connect(url) as connection, database_errors(), connection.transaction():
            return self._replacement.forget(connection)

    def _show(self, from_batch: int, say: Say) -> Shown:
        trying = Retrying(retry=retry_if_exception_type(_Moved), stop=stop_after_attempt(TRIES), reraise=True)
        return trying(self._build_and_compare, from_batch, say)

    def _build_and_compare(self, from_batch: int, say: Say) -> Shown:
        history = self._history(from_batch)
        replay_id = self._build(history, say)
        say("comparing")
        return self._compare(replay_id, history)

    def _put_in_place(self, from_batch: int, reason: str, who: str, say: Say) -> Shown:
        """As the pipeline's owner, so that it stands still."""
        with closing(self._ledger.acquire(self.live.contract)) as held:
            shown = self._show(from_batch, say)
            say("putting it in place")
            done = Done(shown.replay_id, shown.history, shown.differences, reason, who)
            self._replacement.put_in_place(held, done)
            return shown

    def _drop_tables(self, say: Say) -> None:
        """Of a replay that is in place. Where somebody looks at them they stay, and that is all."""
        try:
            with connect(self.endpoints.postgres_url, settings={"lock_timeout": "10s"}) as connection:
                self._replacement.drop_tables(connection)
        except (LedgerAway, psycopg.Error) as error:
            say(
                f"it is in place; what was built could not be dropped ({error}): tidegate replay {self.live.name}"
                " --discard"
            )

    def _refuse_replaced(self, batch_id: int) -> None:
        if (replay_id := self._ledger.replaced_by(self.live.name, batch_id)) is not None:
            raise BadInput(
                f"batch {batch_id} was replaced by replay {replay_id}. tidegate.batch and batch_range know the"
                " batches that read its offsets since; or give offsets, 0:100,1:250",
                field="--from",
            )

    def _batch_of(self, start: ReplayStart) -> int | None:
        offsets, contract = start.offsets, self.live.contract
        if start.timestamp is not None:
            milliseconds = int(start.timestamp.timestamp() * 1000)
            offsets = offsets_at(self.endpoints.kafka_options(), contract.topic, milliseconds)
        assert offsets is not None  # noqa: S101  # the caller asks for one of the two
        return self._ledger.batch_of_offsets(contract, offsets)

    def _history(self, from_batch: int) -> History:
        """What is to be replayed. Raises BadInput where the result would lie."""
        contract, ledger = self.live.contract, self._ledger
        bounds = ledger.replay_bounds(contract.pipeline)
        standings, others = ledger.standings(contract, from_batch), ledger.other_logs(contract, from_batch)
        first = bounds.first_batch if bounds.first_batch is not None else from_batch
        history = History(first, from_batch, bounds.lost_until, standings, others)
        view = KafkaBroker(self.endpoints.kafka_options()).describe(contract.topic)
        try:
            judge(contract.pipeline, ledger.positions(contract.pipeline, contract.topic), view)
        except Halt as halt:
            raise BadInput(
                f"the next run will halt ({halt.code}): {halt.reason} A replay reads the same log: let it run, and "
                "settle that first",
                field=contract.pipeline,
            ) from halt
        replay_plan.refuse_impossible_replay(contract, history, view)
        return history

    def _build(self, history: History, say: Say) -> int:
        """Go on building, from the beginning if it is another replay than the one that was begun; its id."""
        replay_id, done = self._begun(history, say), 0
        with self._building(replay_id, history) as outside:
            try:
                for batch in drain(self._built, outside, WHOLE):
                    done += batch.messages
                    say(f"{done} messages read anew, of {history.messages} in all")
            except Halt as halt:
                raise BadInput(
                    f"the replay stopped ({halt.code}): {halt.reason} Nothing live has changed. Mend the cause, then "
                    f"tidegate replay {self.live.name} again",
                    field=self.live.name,
                ) from halt
        return replay_id

    def _begun(self, history: History, say: Say) -> int:
        """The id of the replay of just this, begun now or before."""
        with connect(self.endpoints.postgres_url) as connection, database_errors(), connection.transaction():
            wanted = replay_plan.fingerprint(self.live, history.from_batch, self._replacement.shapes(connection))
            found = self._ledger.begun_replay(self.live.name)
            status = self._ledger.status(self._built.name)
            if found and found.fingerprint == wanted and status and status.state == "active":
                return found.replay_id
            if found:
                say(
                    "what was built before is of other code, tables or another beginning, or was stopped: it is built"
                    " again"
                )
            return self._replacement.begin(connection, history.from_batch, wanted)

    @contextmanager
    def _building(self, replay_id: int, history: History) -> Iterator[Outside]:
        """The building pipeline, held, with the topic ending where the live one stands."""
        with open_run(self._built, self.endpoints, self.spark) as outside:
            found = self._ledger.begun_replay(self.live.name)  # asked while it is held: nobody discards it unnoticed
            if found is None or found.replay_id != replay_id:
                raise Retryable(f"the replay of {self.live.name} was discarded by somebody else; try again")
            cut = UpTo(outside.broker, {item.partition: item.next_offset for item in history.standings})
            if not outside.ledger.positions():
                view = cut.describe(self.live.contract.topic)
                starts = [
                    Position(s.partition, view.cluster_id, view.topic_id, s.from_offset) for s in history.standings
                ]
                outside.ledger.add_positions(starts, starts)
            events = InTheNameOf(outside.lineage, self.live.contract)
            yield Outside(outside.ledger, cut, outside.source, outside.spark, events)

    def _compare(self, replay_id: int, history: History) -> Shown:
        """In one snapshot, in which both stand at the same offsets. Raises _Moved where they do not."""
        with connect(self.endpoints.postgres_url) as connection, database_errors(), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if self._replacement.apart(connection):
                raise _Moved(
                    f"{self.live.name} reads on while it is replayed, faster than the replay follows. Try again when it"
                    " has caught up with its topic"
                )
            read = self._ledger.messages_read(self._built.name)
            replay_plan.refuse_other_messages(self.live.contract, history, read)
            return Shown(replay_id, history, self._replacement.differences(connection, history))

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self.endpoints.postgres_url)

    @property
    def _built(self) -> Pipeline:
        return replay_plan.beside(self.live)

    @property
    def _replacement(self) -> Replacement:
        return Replacement(self.live, self._built)


class _Moved(Retryable):
    """The pipeline published between two looks at it."""
