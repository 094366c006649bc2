"""Writing to a topic: a producer that keeps its preset's promises."""

import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self, cast

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from platform_defs.errors import BadInput, NotDelivered, ProducerBroken, TransactionAborted
from platform_defs.errors.words import plural
from platform_defs.kafka.client.connection_log import NO_LOG
from platform_defs.kafka.client.refusals import remedy
from platform_defs.kafka.client.rights import to_write
from platform_defs.producer_options.config import Chosen, choose, unused
from platform_defs.producer_options.options import OPTIONS
from platform_defs.producer_options.partitioners import Chooser, chooser, librarys, one_partition
from platform_defs.producer_options.presets import DEFAULT
from platform_defs.producers.message import Delivered, DeliveryCounts, Ids, Message, check_form, refused
from platform_defs.producers.outcomes import outcome_of
from platform_defs.producers.producer_client import connection_options, existing_partitions, new_client
from platform_defs.producers.transactions import Transactions
from platform_defs.producers.undelivered import Attempt, Unsent

PATIENCE = 60.0  # seconds that `send` waits for space in the queue, and a transaction for an answer
SLICE = 0.1  # seconds of one wait in librdkafka, which Ctrl-C does not interrupt

POLL_EVERY = 0.01  # seconds between two polls for delivery reports
_SERVERS = ("bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers")  # the second is an alias
ANYWHERE = -1  # librdkafka's partitioner chooses the partition

Report = Callable[[Message, Delivered | NotDelivered], None]
_OfLibrary = Callable[[Attempt, KafkaError | None, confluent_kafka.Message], None]


class Producer:
    """Writes messages to one topic with a preset. A context manager: at its end everything is acknowledged; if an error
    leaves it, unsent messages are dropped.

    One thread uses it. `counts` has its delivery counts; reports go to `on_delivery` while it sends or flushes; an
    error that `on_delivery` raises comes out of that call.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        topic: str,
        preset: Chosen | str = DEFAULT,
        *,
        client_id: str = "tidegate",
        ids: bool = True,
        partitions: int | None = None,
        patience: float = PATIENCE,
        on_delivery: Report | None = None,
        unsent: Unsent | None = None,
    ) -> None:
        """`options`: a librdkafka configuration: addresses, passwords, and what TIDEGATE_KAFKA_* tune.

        `client_id`: tidegate.<pipeline>.<command>, also the transactional.id if none is given. `ids`: each message gets
        a header `tidegate-id`. `partitions`: the topic's number of partitions; queried if needed and not given.
        `unsent`: gets what is not delivered, also if an error ends the block.

        Raises BadInput for options that contradict each other, or without an address; TopicMissing, BrokerAway if the
        number of partitions is needed and not given.
        """
        if not any(map(options.get, _SERVERS)):
            raise BadInput(
                "there is no bootstrap.servers, such as kafka:9092: options are a whole librdkafka configuration, in "
                "place of TIDEGATE_KAFKA_*",
                field="options",
            )
        self.chosen = choose(preset, environment=options) if isinstance(preset, str) else preset
        self.topic, self.patience, self.counts = topic, patience, DeliveryCounts()
        self.sent = 0  # messages passed to librdkafka
        for name in unused(options):
            logging.getLogger("tidegate").warning(
                "%s is ignored in TIDEGATE_KAFKA_*: it would change the guarantees of preset %s. Set it in the "
                "contract's producerOptions, or with --option",
                name,
                self.chosen.preset.name,
            )
        self._options = connection_options(options)
        self._ids, self._on_delivery, self._unsent = (Ids() if ids else None), on_delivery, unsent
        self._failure: NotDelivered | None = None  # the first that is not reported yet
        self._cause: NotDelivered | None = None  # the first of the transaction
        self._broken: ProducerBroken | None = None
        conf = {**NO_LOG, **self._options, **self._library_options(client_id)}
        self._client = new_client(conf, self.chosen.preset.name)
        self._poll_at = 0.0
        self._choose = self._chooser(options, partitions)
        self._transactions = Transactions(self._client, topic, patience, conf)
        self._ends_each = self.chosen.preset.waits == "each"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                self.flush()
        except BaseException:
            self._give_up()
            raise
        if error is not None:
            self._give_up()

    def send(self, message: Message) -> None:
        """Send a message. Waits for space in the queue, and with a preset that waits for each message, for its ack.

        Raises NotDelivered if the message was not taken; ProducerBroken if none will be; BadInput for an argument of a
        wrong type.
        """
        if self._ends_each:
            self.send_and_wait(message)
        else:
            self._hand_over(message, self._reported)
            if time.monotonic() >= self._poll_at:  # a call for each message would cost as much as sending it
                self._poll(0)

    def send_and_wait(self, message: Message) -> Delivered:
        """Send a message, wait until it is acknowledged, and return its place. Raises NotDelivered if it is not;
        ProducerBroken and BadInput as `send`.
        """
        found: list[Delivered | NotDelivered] = []

        def reported(attempt: Attempt, error: KafkaError | None, report: confluent_kafka.Message) -> None:
            found.append(self._outcome_of(attempt, error, report))

        self._hand_over(message, reported)
        while not found:  # message.timeout.ms ends it
            self._poll(SLICE)
        if isinstance(found[0], NotDelivered):
            raise found[0]
        return found[0]

    def flush(self) -> None:
        """Wait until what was sent is acknowledged or has failed, which takes message.timeout.ms at most.

        Raises NotDelivered, for the first message that failed since the last flush; ProducerBroken if none will be
        delivered any more.
        """
        # Not the library's flush: it continues to call back while it raises a fatal error, and the report is lost.
        while len(self._client):
            self._poll(SLICE)
        self._keep(all_of_it=True)
        if self._broken is not None:
            raise self._broken
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Commit what is sent in the block at its end, or abort it if an error leaves the block: then nobody reads it,
        and `counts` does not count it. `on_delivery` gets reports before the end, which decide nothing yet.

        Raises TransactionAborted, also for a message that was not delivered: all of it may be sent again. AccessDenied:
        a right is missing. ProducerFenced or ProducerBroken: this producer is of no more use. BrokerAway: the first
        could not begin. A message that was aborted counts as not delivered at the next flush, unless another
        transaction has committed it by then. BadInput: the preset is another than transactional.
        """
        if self.chosen.preset.waits != "commit":
            raise BadInput(
                f"a transaction needs the preset transactional; this producer has {self.chosen.preset.name}",
                field="preset",
            )
        before, self.counts, self._cause = self.counts, DeliveryCounts(), None
        if self._unsent is not None:
            self._unsent.begin()
        try:
            with self._transactions.one():
                yield
        except (NotDelivered, TransactionAborted) as error:
            aborted = _aborted(self._first_cause() or error, self.topic)
            self._abort_unsent(aborted)
            raise aborted from error
        except ProducerBroken as error:
            with suppress(KafkaException, SystemError):  # same cause: the errors reported before it count
                self._client.poll(0)
            self._abort_unsent(error)
            if (cause := self._first_cause()) is None:
                raise
            raise type(error)(f"{error}. The earlier error: {cause}") from error
        except BaseException as error:
            self._abort_unsent(error)
            raise
        else:
            before.add(self.counts)
            if self._unsent is not None:
                self._unsent.commit()
        finally:
            self.counts, self._failure = before, None

    def _first_cause(self) -> NotDelivered | None:
        """Return the first message that failed, unless it failed only because the transaction stopped."""
        first = self._cause
        return None if first is None or first.reason in _PURGED else first

    def _abort_unsent(self, error: BaseException) -> None:
        if self._unsent is not None:
            self._unsent.abort(error)

    def note(self, offsets: Sequence[TopicPartition], group: str, member: object) -> None:
        """Commit a group's offsets in the open transaction (producers/written_topics.py)."""
        self._transactions.add_offsets(offsets, group, member)

    def _hand_over(self, message: Message, reported: _OfLibrary) -> None:
        if type(message) is not Message or message.headers != ():  # most have none, and the check takes time
            check_form(message)
        named = None if self._ids is None else self._ids.new()
        attempt = Attempt(message, named) if self._unsent is None else self._unsent.attempt(message, named)
        partition = message.partition
        try:
            if partition is None:
                partition = ANYWHERE if self._choose is None else self._choose(message.key)
        except TypeError as error:
            raise refused(message, error) from error
        headers: list[tuple[str, str | bytes | None]] = [*attempt.headers]
        deadline = None
        while True:
            try:
                self._client.produce(
                    self.topic,
                    message.value,
                    message.key,
                    partition,
                    on_delivery=partial(reported, attempt),
                    timestamp=message.timestamp_ms or 0,
                    headers=headers,
                )
            except BufferError:
                deadline = deadline or time.monotonic() + self.patience
                if time.monotonic() > deadline:
                    full = KafkaError(KafkaError._QUEUE_FULL)  # pyright: ignore[reportPrivateUsage]
                    raise self._not_taken(attempt, full) from None
                self._poll(SLICE)
            except KafkaException as error:
                raise self._not_taken(attempt, error.args[0]) from error
            except (TypeError, ValueError, OverflowError) as error:
                raise refused(message, error) from error
            else:
                self.sent += 1
                return

    def _poll(self, seconds: float) -> None:
        try:
            self._client.poll(seconds)
        except KafkaException as error:  # fatal: what is in the queue fails with it, and is reported
            self._broken = self._transactions.broken(error.args[0])
            if self._broken is None:
                raise
        self._poll_at = time.monotonic() + POLL_EVERY
        self._keep()

    def _keep(self, *, all_of_it: bool = False) -> None:
        if self._unsent is not None:
            self._unsent.keep(all_of_it=all_of_it)

    def _give_up(self) -> None:
        """Keep what an error has left in the queue or in flight: no call will wait for it any more."""
        if self._unsent is None:
            return
        try:
            self._client.purge()
            while self._client.flush(SLICE):
                pass
        finally:  # also if `on_delivery` raised
            self._unsent.keep(all_of_it=True)

    def _not_taken(self, attempt: Attempt, error: KafkaError) -> Exception:
        """Return the error to raise if librdkafka did not take a message."""
        failed = self._failed(attempt, error, None, taken=False)
        return self._transactions.broken(error) or failed

    def _reported(self, attempt: Attempt, error: KafkaError | None, report: confluent_kafka.Message) -> None:
        """Handle librdkafka's report of a message that no call waits for."""
        if error is None and self._on_delivery is None:
            self._count(report)
            return
        found = self._outcome_of(attempt, error, report)
        if isinstance(found, NotDelivered):
            self._failure = self._failure or found

    def _outcome_of(
        self, attempt: Attempt, error: KafkaError | None, report: confluent_kafka.Message
    ) -> Delivered | NotDelivered:
        """Count a message's outcome, and pass it on."""
        if error is not None:
            return self._failed(attempt, error, report.partition())
        found = Delivered(self._count(report), report.offset(), report.timestamp()[1])
        if self._on_delivery is not None:
            self._on_delivery(attempt.message, found)
        return found

    def _count(self, report: confluent_kafka.Message) -> int:
        """Count a delivered message and return its partition."""
        counts, partition = self.counts, cast("int", report.partition())
        counts.delivered += 1
        counts.partitions[partition] += 1
        counts.latencies.add(report.latency() or 0.0)
        return partition

    def _failed(
        self, attempt: Attempt, error: KafkaError, partition: int | None, *, taken: bool = True
    ) -> NotDelivered:
        """Return the error for a failed delivery. A message that librdkafka has not taken was not written."""
        why = remedy(self._client.connection_log.denied or error, (to_write(self.topic),), self._options)
        servers, outcome = self._options.get("bootstrap.servers", ""), outcome_of(error.code())
        failed = NotDelivered(
            f"Kafka at {servers} did not acknowledge a message to {self.topic}: {error.str()} ({error.name()})"
            + (why and f". {why}"),
            code=error.code(),
            reason=error.name(),
            outcome="not_written" if outcome == "unknown" and not taken else outcome,
        )
        self.counts.failed[failed.reason] += 1
        self._cause = self._cause or failed
        if self._unsent is not None:
            self._unsent.failed(attempt, failed, partition)
        if self._on_delivery is not None:
            self._on_delivery(attempt.message, failed)
        return failed

    def _library_options(self, client_id: str) -> dict[str, Any]:
        """Return the chosen options in librdkafka's form."""
        options: dict[str, Any] = {"client.id": client_id, **self.chosen.options}
        if self.chosen.preset.waits == "commit":
            options.setdefault("transactional.id", client_id)  # not client.id, which TIDEGATE_KAFKA_* may name
        partitioner = librarys(self.chosen.partitioner)
        return {**options, "partitioner": partitioner or OPTIONS["partitioner"].default}

    def _chooser(self, options: Mapping[str, Any], partitions: int | None) -> Chooser | None:
        """Return the function that chooses a message's partition; None if librdkafka does."""
        if librarys(partitioner := self.chosen.partitioner) is not None:
            return None
        there = partitions or existing_partitions(options, self.topic)
        if (number := one_partition(partitioner)) is not None and number >= there:
            last = f"the last of its {plural(there, 'partition')} is {there - 1}"
            raise BadInput(f"{self.topic} has no partition {number}; {last}", field="partitioner")
        return chooser(partitioner, there)


_PURGED = {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}


def _aborted(cause: NotDelivered | TransactionAborted, topic: str) -> TransactionAborted:
    message = f"a transaction on {topic} was aborted, so consumers see none of it: {cause}"
    text = str(cause) if isinstance(cause, TransactionAborted) else message
    return TransactionAborted(text, code=cause.code, reason=cause.reason, outcome=cause.outcome)
