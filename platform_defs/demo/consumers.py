"""The consumers of `tidegate demo delivery`, each in a process of its own, which is killed and started again."""

import os
import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from platform_defs.demo.delivery_model import BATCH, Crash, Place, Semantics, Transfer
from platform_defs.demo.topic import right_on_group
from platform_defs.errors import BrokerAway, InternalError, TidegateError
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right
from platform_defs.postgres.connection import Connection, connect, database_errors

PATIENCE = 60.0  # seconds without a message
POST = "INSERT INTO tidegate_demo.postings (semantics, transfer, account, amount) VALUES (%s, %s, %s, %s)"
POSITION = "SELECT next_offset FROM tidegate_demo.positions WHERE partition = 0"
# As in the engine: it touches one row, or another process has moved the position and nothing may be committed.
MOVE = "UPDATE tidegate_demo.positions SET next_offset = %s WHERE partition = 0 AND next_offset = %s"


@dataclass(frozen=True, kw_only=True)
class Task:
    """The work of one process: to consume the topic's one partition up to the offset `end`. `options` are
    librdkafka's.
    """

    semantics: Semantics
    topic: str
    group: str
    end: int
    crashes: Sequence[Crash]  # still to come
    options: Mapping[str, Any] = field(repr=False)  # they may contain a password
    postgres_url: str = field(repr=False)  # it contains the password


def run(task: Task, answer: Pipe) -> None:
    """Consume as in `task`, in a process of its own, which ends with exit code 0 at the end of the topic.

    At its first crash of the task, it sends the crash and kills itself (SIGKILL). It also sends errors of ours.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent process
    try:
        with database_errors(), connect(task.postgres_url, "tidegate demo consumer") as session:
            process = Process(task=task, answer=answer, session=session)
            {
                "at_most_once": process.consume_at_most_once,
                "at_least_once": process.consume_at_least_once,
                "exactly_once": process.consume_exactly_once,
            }[task.semantics]()
    except KafkaException as error:
        answer.send(BrokerAway(f"Kafka: {error.args[0].str()}. Run the command again"))
    except TidegateError as error:
        answer.send(error)


@dataclass(frozen=True, kw_only=True)
class Process:
    """The state of one process."""

    task: Task
    answer: Pipe
    session: Connection  # in autocommit

    def consume_at_most_once(self) -> None:
        """Consume as most programs do: librdkafka commits delivered offsets by a timer."""
        consumer = self._consumer({"enable.auto.commit": True, "auto.commit.interval.ms": 100})
        consumer.subscribe([self.task.topic])
        for batch in self._batches(consumer):
            for message in batch:
                self._handle(message, before_crash=partial(_wait_for_commit, consumer))
        consumer.close()

    def consume_at_least_once(self) -> None:
        """Consume, and commit each batch after it is handled."""
        consumer = self._consumer({"enable.auto.commit": False})
        consumer.subscribe([self.task.topic])
        for batch in self._batches(consumer):
            for message in batch:
                self._handle(message)
            consumer.commit(asynchronous=False)
        consumer.close()

    def consume_exactly_once(self) -> None:
        """Consume as the engine does: the position is a row in the database of the postings, and moves with them."""
        consumer = self._consumer({"enable.auto.commit": False})
        ((position,),) = self.session.execute(POSITION).fetchall()
        consumer.assign([TopicPartition(self.task.topic, 0, position)])
        for batch in self._batches(consumer):
            with self.session.transaction():
                for message in batch:
                    self._handle(message)
                moved = self.session.execute(MOVE, [_offset(batch[-1]) + 1, _offset(batch[0])])
                if moved.rowcount != 1:
                    raise InternalError.in_command("tidegate demo delivery", "another process has moved the position")
        consumer.close()

    def _handle(self, message: Message, before_crash: Callable[[Message], None] = lambda _: None) -> None:
        """Write two postings, each in its own transaction unless the caller has begun one."""
        transfer = Transfer.from_message(message.value() or b"")

        def perhaps_crash(place: Place) -> None:
            crash = Crash(transfer=transfer.number, place=place)
            if crash in self.task.crashes:
                before_crash(message)
                self.answer.send(crash)
                os.kill(os.getpid(), signal.SIGKILL)

        self._post(transfer, transfer.debit_account, -transfer.amount)
        perhaps_crash("between_postings")
        self._post(transfer, transfer.credit_account, transfer.amount)
        perhaps_crash("after_postings")

    def _post(self, transfer: Transfer, account: str, amount: Decimal) -> None:
        self.session.execute(POST, [self.task.semantics, transfer.number, account, amount])

    def _consumer(self, options: Mapping[str, Any]) -> Consumer:
        return Consumer(
            {
                **self.task.options,
                "group.id": self.task.group,
                "group.protocol": "classic",
                "group.instance.id": "1",  # the restarted process replaces the killed one at once
                "session.timeout.ms": 6_000,  # the least that brokers allow: the group is soon empty, and deleted
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                **options,
            }
        )

    def _batches(self, consumer: Consumer) -> Generator[list[Message]]:
        """Yield the consumer's messages, up to the end. Raises BrokerAway, AccessDenied."""
        received, reached = time.monotonic(), False
        while not reached:
            polled = consumer.consume(BATCH, timeout=0.5)
            batch = [message for message in polled if message.error() is None]
            for message in polled:
                if (error := message.error()) is not None:
                    reached = self._is_end(error, message)
            if batch:
                yield batch
                received = time.monotonic()
            elif time.monotonic() > received + PATIENCE:
                raise BrokerAway(f"no message of {self.task.topic} within {PATIENCE:.0f} s. Is Kafka up?")

    def _is_end(self, error: KafkaError, message: Message) -> bool:
        """Return True at the end of the topic. Raises errors that only a user can fix; ignores others."""
        if error.code() == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]  # it has no other name
            return _offset(message) >= self.task.end
        needed = Right("topic", self.task.topic, ("Read",)), right_on_group(self.task.group)
        if (refused := refusal(error, f"to read {self.task.topic}", needed, self.task.options)) is not None:
            raise refused
        return False


def _wait_for_commit(consumer: Consumer, message: Message) -> None:
    """Wait until the timer has committed the offset after `message`. Raises BrokerAway."""
    place = TopicPartition(cast("str", message.topic()), cast("int", message.partition()))
    until = time.monotonic() + PATIENCE
    while consumer.committed([place], PATIENCE)[0].offset <= _offset(message):
        if time.monotonic() > until:
            raise BrokerAway(f"offsets were not committed within {PATIENCE:.0f} s")
        time.sleep(0.01)


def _offset(message: Message) -> int:
    return cast("int", message.offset())
