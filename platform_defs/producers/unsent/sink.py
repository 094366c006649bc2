"""The sink for messages that a producer could not deliver: the ledger, or a file until Postgres is back."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from platform_defs.errors import NotDelivered, TidegateError, TransactionAborted, UnsentLost
from platform_defs.errors.words import plural
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.producers.message import ID, Message
from platform_defs.producers.undelivered import MAX_BYTES, Attempt, LogEnds, UnsentMessage
from platform_defs.producers.unsent.files import UnsentFiles, unsent_files
from platform_defs.producers.unsent.ledger import UnsentLedger

FRESH = 60.0  # seconds for which the ends of the log are reused: older ones only cost reading
AWAY = 30.0  # seconds without another attempt after Postgres was unavailable
AT_ONCE = 1_000  # messages, and MAX_BYTES of their content, that wait in memory at most
Failure = tuple[NotDelivered, int | None]  # and the partition
Aborted = tuple[Attempt, NotDelivered, int | None]


@dataclass
class UnsentSink:
    """Keeps what a producer of one pipeline could not deliver (producing.unsent.Unsent). One thread uses it."""

    pipeline: str
    topic: str
    broker: KafkaBroker
    ledger: UnsentLedger
    files: UnsentFiles
    kept: int = 0  # messages in the ledger or a file
    in_files: int = 0  # of these, in a file
    away: TidegateError | OSError | None = None  # why they are in a file
    _open: dict[int, Attempt] | None = None  # the transaction's attempts, by their Python ids
    _reported: dict[int, Failure] = field(default_factory=dict[int, Failure])
    _aborted: list[Aborted] = field(default_factory=list[Aborted])
    _earlier: list[Aborted] = field(default_factory=list[Aborted])  # before the transaction that is open
    _waiting: list[UnsentMessage] = field(default_factory=list[UnsentMessage])
    _size: int = 0
    _before: LogEnds | None = None
    _asked: float = 0.0
    _away_until: float = 0.0
    _file: Path | None = None

    def attempt(self, message: Message, named: bytes | None) -> Attempt:
        """Return the attempt to deliver `message`. Requests the ends of the log from Kafka once in FRESH seconds.

        Raises BrokerAway, TopicMissing, BadInput if Kafka never answered: then nothing may be sent.
        """
        before = self._ends()
        if not isinstance(message.headers, tuple):  # a list may change before it is stored, and cannot be counted
            message = message._replace(headers=tuple(message.headers))
        at_ms = time.time_ns() // 1_000_000 if message.timestamp_ms is None else message.timestamp_ms
        attempt = Attempt(message, named, before, at_ms)
        if self._open is not None:
            self._open[id(attempt)] = attempt
        return attempt

    def failed(self, attempt: Attempt, failure: NotDelivered, partition: int | None) -> None:
        """Add the failure to the next write. In a transaction nothing is delivered before its end: see `abort`."""
        if self._open is None:
            self._add_all([(attempt, failure, partition)])
        else:
            self._reported[id(attempt)] = failure, partition

    def begin(self) -> None:
        """Remember what was aborted before: only the part that this transaction commits was sent again."""
        self._open, self._reported = {}, {}
        self._earlier, self._aborted = self._aborted, []

    def commit(self) -> None:
        """Forget what was aborted before and is delivered now. The rest may still be sent again until it is written. If
        there is a lot of it and this transaction sent none of it, the program has moved on, and it is written next.
        """
        left = _not_among(self._earlier, [one.message for one in (self._open or {}).values()]) if self._earlier else []
        if len(left) == len(self._earlier) >= AT_ONCE:
            self._add_all(left)
            left = []
        self._open, self._reported, self._earlier, self._aborted = None, {}, [], left

    def abort(self, failure: BaseException) -> None:
        """Give each message its own error, or the transaction's."""
        known = isinstance(failure, NotDelivered | TransactionAborted)
        cause = failure if known else NotDelivered(str(failure), reason=type(failure).__name__)
        outcome = "not_written" if cause.outcome == "poison" else cause.outcome
        whole = NotDelivered(str(failure), code=cause.code, reason=cause.reason, outcome=outcome)
        aborted = [(one, *self._reported.get(key, (whole, None))) for key, one in (self._open or {}).items()]
        self._aborted = aborted + _not_among(self._earlier, [attempt.message for attempt, _, _ in aborted])
        self._open, self._reported, self._earlier = None, {}, []

    def keep(self, *, all_of_it: bool = False) -> None:
        """Write what has failed. If neither the ledger nor a file takes it, the next call tries again."""
        if all_of_it:
            self._add_all(self._aborted)
            self._aborted = []
        if not self._waiting or not (all_of_it or len(self._waiting) >= AT_ONCE or self._size >= MAX_BYTES):
            return
        if time.monotonic() < self._away_until or not self._keep_in_ledger():
            self._file = self._file or self.files.own()
            try:
                self.files.append(self._file, self._waiting)
            except OSError as error:
                raise UnsentLost(
                    f"{plural(len(self._waiting), 'message')} to {self.topic} could not be delivered or saved: "
                    f"Postgres did not accept them ({self.away}), and the file {self._file} could not be written "
                    f"({error}). They are lost when this process ends. Free disk space or start Postgres, then send "
                    "them again"
                ) from error
            self.in_files += len(self._waiting)
        self.kept += len(self._waiting)
        self._waiting, self._size = [], 0

    def _add_all(self, failed: Iterable[Aborted]) -> None:
        for attempt, reported, partition in failed:
            failure = reported
            if failure.outcome == "poison" and partition is not None:
                # Brokers refuse a batch as a whole, for its size or for one message in it: `unsent send` finds the bad
                # message by sending each alone. What librdkafka refused has no partition yet.
                failure = NotDelivered(str(failure), code=failure.code, reason=failure.reason, outcome="not_written")
            message = unsent_message(self.pipeline, attempt, failure, partition)
            self._waiting.append(message)
            self._size += message.size

    def _keep_in_ledger(self) -> bool:
        try:
            # They failed before the waiting ones and are sent again first.
            if self._file is not None:
                self.files.take(self._file, self.ledger.keep)
                self._file, self.in_files = None, 0
            self.ledger.keep(self._waiting)
        except (TidegateError, OSError) as error:  # unavailable, missing, no rights: no error may lose the message
            self.away, self._away_until = error, time.monotonic() + AWAY
            return False
        return True

    def _ends(self) -> LogEnds:
        if self._before is not None and time.monotonic() - self._asked <= FRESH:
            return self._before
        self._asked = time.monotonic()
        broker = self.broker if self._before is None else replace(self.broker, timeout=1.0)
        try:
            view = broker.describe(self.topic, configured=False)
        except TidegateError:
            if self._before is None:
                raise
            return self._before  # older ends are valid too: more of the log will be read
        ends = tuple(view.partitions[number].written for number in range(len(view.partitions)))
        self._before = LogEnds(self.topic, view.cluster_id, view.topic_id, ends)
        return self._before


def _not_among(earlier: Iterable[Aborted], messages: Iterable[Message]) -> list[Aborted]:
    """Return the items of `earlier` whose message is not among `messages`, which may contain one more than once."""
    again, left = Counter(messages), list[Aborted]()
    for item in earlier:
        if again[item[0].message] > 0:
            again[item[0].message] -= 1
        else:
            left.append(item)
    return left


def sink(pipeline: str, topic: str, kafka_options: Mapping[str, str], postgres_url: str) -> UnsentSink:
    """Return the sink for a producer of `pipeline`, with the ledger and the files of this TIDEGATE_HOME."""
    broker, ledger = KafkaBroker(kafka_options), UnsentLedger(postgres_url)
    return UnsentSink(pipeline, topic, broker, ledger, unsent_files())


def unsent_message(pipeline: str, attempt: Attempt, failure: NotDelivered, partition: int | None) -> UnsentMessage:
    """Return the stored form of an undelivered message. Without an id it is named after its row."""
    unsent_id, message = uuid4(), attempt.message
    named = next((value for name, value in reversed(attempt.headers) if name == ID), None)
    if attempt.before is None:
        raise ValueError("the attempt is not of UnsentSink.attempt")
    return UnsentMessage(
        unsent_id=unsent_id,
        pipeline=pipeline,
        before=attempt.before,
        partition=partition if partition is not None and partition >= 0 else message.partition,
        key=message.key,
        value=message.value,
        headers=attempt.headers,
        tidegate_id=named or str(unsent_id).encode(),
        id_sent=bool(named),
        error_code=failure.code,
        error_name=failure.reason,
        outcome=failure.outcome,
        failed_at=datetime.now(UTC),
        timestamp_ms=attempt.at_ms,
    )


def kept_where(sink: UnsentSink) -> str:
    """Return the message about kept messages, with the command that sends them; "" if there are none."""
    if not sink.kept:
        return ""
    many = plural(sink.kept, "message that was", "messages that were")
    where = "tidegate.unsent"
    if sink.in_files:
        where = f"{sink.files.folder} ({sink.in_files:,} of them, because Postgres did not accept them: {sink.away})"
    return (
        f"{many} not delivered {'is' if sink.kept == 1 else 'are'} kept in {where}. Once Kafka is available again: "
        f"tidegate unsent send {sink.pipeline}"
    )
