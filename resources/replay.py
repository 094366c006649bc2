"""Tables built anew beside the live ones (`build`), compared (`differences`), and put in their place (`execute`).

The building pipeline is one like any other: it has positions, batches and dead letters of its own in the ledger, under
the name `<pipeline>~replay`, and stops where the live one stands. What it may do is decided in engine/replay.py; how it
is put in place, in one transaction, is in resources/replacement.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from platform_defs.engine import replay as rules
from platform_defs.engine.batch import Outside, drain
from platform_defs.engine.errors import BadInput, Fenced, Halt, Retryable
from platform_defs.engine.offsets import Position, judge
from platform_defs.engine.ports import Pipeline
from platform_defs.engine.replay import From, History, InTheNameOf, Standing, UpTo
from resources import replacement
from resources.kafka import KafkaBroker, offsets_at
from resources.ledger import Ledger
from resources.outside import hold, kafka_options
from resources.postgres import connect, database_errors
from resources.replacement import Difference
from resources.settings import Endpoints

TRIES = 3  # while another run of the pipeline comes between
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

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.endpoints.postgres_url)

    @property
    def built(self) -> Pipeline:
        return rules.beside(self.live)

    def first_batch(self, start: From) -> int:
        """The batch that a replay from `start` begins with: batches are replayed whole. Raises BadInput."""
        self.ledger.migrate()
        name = self.live.name
        status = self.ledger.status(name)
        if status and status["state"] == "halted":
            raise BadInput(
                f"{name} is halted ({status['halt_code']}); settle that first: tidegate ack {name}", field=name
            )
        (bounds,) = self.ledger.rows("replay_bounds", pipeline=name)
        if bounds["first_batch"] is None:
            raise BadInput(f"{name} has published nothing yet: there is nothing to replay", field=name)
        found = bounds["first_batch"]
        if start.batch is not None:
            found = self.ledger.rows("next_batch", pipeline=name, batch_id=start.batch)[0]["batch_id"]
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
        for attempt in Retrying(retry=retry_if_exception_type(_Moved), stop=stop_after_attempt(TRIES), reraise=True):
            with attempt:
                history = self._history(from_batch)
                replay_id = self._build(history, say)
                say("comparing")
                with connect(self.endpoints.postgres_url) as connection, database_errors(), connection.transaction():
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    if replacement.apart(connection, self.live, self.built):
                        raise _Moved(f"{self.live.name} reads on while it is replayed, faster than the replay follows. Try "
                                     "again, or put it in place with --execute, which holds the pipeline")  # fmt: skip
                    found = replacement.differences(connection, self.live, self.built, history)
                    return Shown(replay_id, history, found)
        raise AssertionError("Retrying returns or raises")

    def execute(self, from_batch: int, reason: str, who: str, say: Say) -> Shown:
        """Build, catch up to the exact position as the pipeline's owner, and put all of it in place, or change nothing.

        Raises what `show` raises; Fenced when runs of the pipeline keep taking it over.
        """
        self._build(self._history(from_batch), say)  # the long part, beside the pipeline as it runs
        for attempt in Retrying(retry=retry_if_exception_type(Fenced), stop=stop_after_attempt(TRIES), reraise=True):
            with attempt, hold(self.live, self.endpoints, self.spark) as outside:
                shown = self.show(from_batch, say)
                say("putting it in place")
                replacement.put_in_place(
                    outside.ledger,
                    self.live,
                    self.built,
                    shown.replay_id,
                    shown.history,
                    shown.differences,
                    reason,
                    who,
                )
                self._drop_tables()
                return shown
        raise AssertionError("Retrying returns or raises")

    def discard(self) -> bool:
        """Drop what was built and not put in place. False when there is nothing."""
        if not self.ledger.rows("replay_of", pipeline=self.live.name):
            return False
        with connect(self.endpoints.postgres_url) as connection, database_errors(), connection.transaction():
            replacement.forget(connection, self.live, self.built)
        self._drop_tables()
        return True

    def _batch_of(self, start: From) -> int | None:
        offsets = start.offsets
        if start.timestamp is not None:
            milliseconds = int(start.timestamp.timestamp() * 1000)
            offsets = offsets_at(kafka_options(self.endpoints), self.live.contract.topic, milliseconds)
        assert offsets is not None  # noqa: S101  # the caller asks for one of the two
        key = {"partitions": list(offsets), "offsets": list(offsets.values())}
        return self.ledger.rows("batch_of_offsets", pipeline=self.live.name, **key)[0]["batch_id"]

    def _history(self, from_batch: int) -> History:
        contract, ledger = self.live.contract, self.ledger
        (bounds,) = ledger.rows("replay_bounds", pipeline=contract.pipeline)
        key = {"pipeline": contract.pipeline, "topic": contract.topic, "from_batch": from_batch}
        standings = tuple(Standing(**row) for row in ledger.rows("standings", **key))
        history = History(bounds["first_batch"], from_batch, bounds["lost_until"], standings)
        view = KafkaBroker(kafka_options(self.endpoints)).describe(contract.topic)
        judge(contract.pipeline, ledger.positions(contract.pipeline, contract.topic), view)
        rules.refuse_a_lie(contract, history, view)
        return history

    def _build(self, history: History, say: Say) -> int:
        """Go on building, from the beginning if it is another replay than the one that was begun; its id."""
        replay_id = self._begun(history, say)
        done, total = 0, history.messages
        with self._building(history) as outside:
            try:
                for batch in drain(self.built, outside):
                    done += batch.messages
                    say(f"{done} messages read anew, of {total} in all")
            except Halt as halt:
                raise BadInput(f"the replay stopped ({halt.code}): {halt} Nothing live has changed. Mend the cause, then "
                               f"tidegate replay {self.live.name} again", field=self.live.name) from halt  # fmt: skip
        read = {row["partition"]: row["messages"] for row in self.ledger.rows("messages_read", beside=self.built.name)}
        if not self._behind(history):
            rules.refuse_other_messages(self.live.contract, history, read)
        return replay_id

    def _behind(self, history: History) -> bool:
        """Whether the pipeline has moved on since `history` was asked for: then messages cannot be compared with it."""
        positions = self.ledger.positions(self.live.name, self.live.contract.topic)
        return {item.partition: item.next_offset for item in positions} != {
            item.partition: item.next_offset for item in history.standings
        }

    def _begun(self, history: History, say: Say) -> int:
        wanted = rules.fingerprint(self.live, history.from_batch)
        found = next(iter(self.ledger.rows("replay_of", pipeline=self.live.name)), None)
        status = self.ledger.status(self.built.name) or {}
        if found and (found["fingerprint"] != wanted or status.get("state") != "active"):
            say(
                "what was built before is of another contract, transform or beginning, or was stopped: it is built again"
            )
            self.discard()
            found = None
        if found:
            return found["replay_id"]
        with connect(self.endpoints.postgres_url) as connection, database_errors(), connection.transaction():
            return replacement.begin(connection, self.live, self.built, history.from_batch, wanted)

    @contextmanager
    def _building(self, history: History) -> Iterator[Outside]:
        """The building pipeline, held, with the topic ending where the live one stands."""
        with hold(self.built, self.endpoints, self.spark) as outside:
            cut = UpTo(outside.broker, {item.partition: item.next_offset for item in history.standings})
            events = InTheNameOf(outside.lineage, self.live.contract)
            if not outside.ledger.positions():
                view = cut.describe(self.live.contract.topic)
                starts = [
                    Position(s.partition, view.cluster_id, view.topic_id, s.from_offset) for s in history.standings
                ]
                outside.ledger.add_positions(starts, starts)
            yield Outside(outside.ledger, cut, outside.source, outside.spark, events)

    def _drop_tables(self) -> None:
        with connect(self.endpoints.postgres_url) as connection, database_errors():
            replacement.drop_tables(connection, self.built)


class _Moved(Retryable):
    """The pipeline published between two looks at it."""
