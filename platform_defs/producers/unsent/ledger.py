"""Dead letters of producers in the ledger (tidegate.unsent): kept, listed, and settled one command at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.errors import ChangedMeanwhile, LedgerMissing, PipelineHeld
from platform_defs.ledger.migrations import reading
from platform_defs.postgres.connection import Connection, connect, database_errors, dict_rows, queries
from platform_defs.producers.message import made_at
from platform_defs.producers.outcomes import Outcome
from platform_defs.producers.undelivered import LogEnds, UnsentMessage

Status = Literal["open", "found", "sent", "discarded"]


@dataclass(frozen=True)
class UnsentCount:
    """The number of messages not delivered for one reason, and their status."""

    topic: str
    outcome: Outcome
    error_name: str
    status: Status
    messages: int


@dataclass(frozen=True)
class UnsentLog:
    """The log that open messages were meant for. `blind`: their outcome is unknown, and they had no id."""

    before: LogEnds
    blind: bool


@dataclass(frozen=True)
class UnsentId:
    """An open message without its content: what is needed to search for it."""

    number: int
    unsent_id: UUID
    tidegate_id: bytes
    log: UnsentLog
    bytes: int
    first_try: float  # seconds since the epoch; later than it was, if it failed several times and has no id of `Ids`


@dataclass(frozen=True)
class Chosen:
    """A selection of the open messages: all that match the fields given."""

    outcome: str | None = None
    error: str | None = None  # its name
    unsent_id: UUID | None = None


@dataclass(frozen=True)
class Discard:
    """Open messages to settle without sending, as they were shown."""

    pipeline: str
    counts: tuple[UnsentCount, ...]
    shown: tuple[int, ...]  # per count, a sum over its messages: another message, or another try, changes it

    @property
    def messages(self) -> int:
        return sum(count.messages for count in self.counts)

    @property
    def fingerprint(self) -> str:
        """A hash of what was shown, so that exactly these messages are settled."""
        counts = (f"{count} {total}" for count, total in zip(self.counts, self.shown, strict=True))
        return fingerprint_of([self.pipeline, *counts])


@dataclass(frozen=True)
class UnsentLedger:
    """The table in the database at `url` (a libpq URI). Each method raises LedgerAway, LedgerOutdated, LedgerTooNew."""

    url: str = field(repr=False)  # contains the password

    def keep(self, messages: Iterable[UnsentMessage]) -> None:
        """Add the messages in one transaction; existing ones stay as they are. Raises LedgerMissing."""
        with reading(connect(self.url)) as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(queries()["keep_unsent"], [_parameters(item) for item in messages])

    def counts(self, pipeline: str, reason: str | None, outcome: str | None) -> list[UnsentCount]:
        """Return the number of messages, highest first; `reason` and `outcome` select one error or outcome."""
        rows = self._rows("unsent_counts", pipeline=pipeline, reason=reason, outcome=outcome)
        return [UnsentCount(**row) for row in rows]

    def lines(self, pipeline: str, reason: str | None, outcome: str | None, limit: int) -> list[dict[str, Any]]:
        """Return at most `limit` messages, without their content: open ones first, newest first. `bytes` is the size of
        the value; None for a tombstone.
        """
        return self._rows("unsent_of", pipeline=pipeline, reason=reason, outcome=outcome, limit=limit)

    def discardable(self, pipeline: str, chosen: Chosen) -> Discard:
        """Return the open messages that `HeldUnsent.discard` would settle."""
        return _discard(pipeline, self._rows("open_unsent", pipeline=pipeline, **vars(chosen)))

    def _rows(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        with suppress(LedgerMissing), reading(connect(self.url)) as connection:
            return dict_rows(connection, query, parameters)
        return []

    @contextmanager
    def hold(self, pipeline: str) -> Generator[HeldUnsent]:
        """Yield the pipeline's open messages, for this process alone. Raises PipelineHeld while another has them.

        The lock is a transaction's, on its own connection, which a pooler keeps together; it keeps no snapshot.
        """
        with reading(connect(self.url)) as locking, locking.transaction(), reading(connect(self.url)) as connection:
            if locking.execute(queries()["hold_unsent"], {"pipeline": pipeline}).fetchone() != (True,):
                raise PipelineHeld(
                    f"another `tidegate unsent send` or `tidegate unsent discard` is running on {pipeline}. Nothing "
                    "was changed. Wait until it ends"
                )
            yield HeldUnsent(connection, pipeline, locking)


@dataclass(frozen=True)
class HeldUnsent:
    """A pipeline's open messages, which no other command settles meanwhile."""

    connection: Connection
    pipeline: str
    locking: Connection

    def seconds_under_way(self) -> float:
        """Return the seconds for which an unfinished earlier command may still be sending; 0 or less if none may."""
        return self._rows("unsent_under_way")[0]["seconds"] or 0.0

    def ids(self, outcomes: Sequence[Outcome], after: int, limit: int) -> list[UnsentId]:
        """Return the next `limit` open messages after the number `after`, in the order of their numbers."""
        known = dict[UnsentLog, UnsentLog]()  # most share one, which may have many partitions
        found = list[UnsentId]()
        for row in self._rows("unsent_ids", outcomes=list(outcomes), after=after, limit=limit):
            log = UnsentLog(_before(row), row["blind"])
            log = known.setdefault(log, log)
            named = row["tidegate_id"]
            first = min(row["failed_at"], made_at(named) or row["failed_at"])
            found.append(UnsentId(row["number"], row["unsent_id"], named, log, row["bytes"], first))
        return found

    def keys(self, items: Sequence[UnsentId]) -> dict[UUID, bytes]:
        """Return the key of each that has one, by `unsent_id`."""
        rows = self._rows("unsent_keys", ids=[item.unsent_id for item in items])
        return {row["unsent_id"]: row["key"] for row in rows}

    def messages(self, ids: Sequence[UUID]) -> list[UnsentMessage]:
        """Return the open messages among `ids`, whole, in the order of their numbers."""
        return [_message(row) for row in self._rows("unsent_messages", ids=list(ids))]

    def trying(self, ids: Sequence[UUID], seconds: float) -> None:
        """Record, before they are sent, the maximum seconds this takes. Raises LedgerAway without the lock."""
        with database_errors():
            self.locking.execute("SELECT 1")
        self._execute("try_unsent", [{"ids": list(ids), "seconds": seconds}])

    def settle(self, how: Literal["found", "sent"], who: str, places: Mapping[UUID, tuple[int, int]]) -> None:
        """Record that they are in the log, each at its partition and offset."""
        given = {"how": how, "who": who, "tries": int(how == "sent")}
        at = [{"unsent_id": key, "partition": at[0], "offset": at[1], **given} for key, at in places.items()]
        self._execute("settle_unsent", at)

    def fail(self, failures: Mapping[UUID, tuple[int, str, Outcome]]) -> None:
        """Record that they were sent again and not delivered: code, name and outcome of each."""
        self._execute(
            "fail_unsent",
            [
                {"unsent_id": key, "error_code": code, "error_name": name, "outcome": outcome}
                for key, (code, name, outcome) in failures.items()
            ],
        )

    def discard(self, chosen: Chosen, shown: Discard, reason: str, who: str) -> None:
        """Settle them without sending, with a user's reason. Raises ChangedMeanwhile, with nothing settled, if they
        differ from what was `shown`: producers add to them at any time.
        """
        with database_errors(), self.connection.transaction():
            found = _discard(self.pipeline, self._rows("discard_unsent", **vars(chosen), reason=reason, who=who))
            if found != shown:
                raise ChangedMeanwhile(
                    f"the undelivered messages of {self.pipeline} have changed since they were shown; nothing was "
                    f"discarded. Check again: tidegate unsent discard {self.pipeline}"
                )

    def _rows(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        with database_errors():
            return dict_rows(self.connection, query, {"pipeline": self.pipeline, **parameters})

    def _execute(self, query: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        with database_errors(), self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany(queries()[query], parameters)


def _discard(pipeline: str, rows: Sequence[Mapping[str, Any]]) -> Discard:
    counts = (UnsentCount(row["topic"], row["outcome"], row["error_name"], "open", row["messages"]) for row in rows)
    return Discard(pipeline, tuple(counts), tuple(int(row["shown"]) for row in rows))


def _before(row: Mapping[str, Any]) -> LogEnds:
    return LogEnds(row["topic"], row["cluster_id"], row["topic_id"], tuple(row["end_offsets"]))


def _parameters(message: UnsentMessage) -> dict[str, Any]:
    before = message.before
    return {
        **vars(message),
        "topic": before.topic,
        "cluster_id": before.cluster_id,
        "topic_id": before.topic_id,
        "end_offsets": list(before.end_offsets),
        "header_names": [name.encode("utf-8", "surrogatepass") for name, _ in message.headers],
        "header_values": [value for _, value in message.headers],
    }


def _message(row: Mapping[str, Any]) -> UnsentMessage:
    log = ("topic", "cluster_id", "topic_id", "end_offsets", "header_names", "header_values")
    names = [name.decode("utf-8", "surrogatepass") for name in row["header_names"]]
    rest = {name: value for name, value in row.items() if name not in log}
    return UnsentMessage(**rest, before=_before(row), headers=tuple(zip(names, row["header_values"], strict=True)))
