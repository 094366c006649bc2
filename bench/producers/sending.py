"""A producer that sends numbered messages and records the report of each, in a thread of its own."""

import os
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from bench.producers.journal import KEYS, Journal
from bench.producers.statistics import ProducerStatistics
from platform_defs.producer_options.presets import Preset

HEAD = struct.Struct(">HQQ")  # producer, number, nanoseconds of its clock when it was sent
OTHER = bytes(HEAD.size)  # a message of producer 0, which is not measured
SIZE = 180  # bytes of a message's value
COMMIT_SECONDS = 0.1
SETTLED_SECONDS = 90.0  # until messages are reported, or committed; later ones have failed
STATISTICS_MS = 100
QUIET = {"log_level": 0}
_LAST = (KafkaError._FATAL, KafkaError._STATE)  # pyright: ignore[reportPrivateUsage]  # they have no other names
_PADDING = os.urandom(1 << 16).hex().encode()  # it compresses to half, like text


@dataclass(frozen=True)
class Pace:
    """The pace of a stream: the minimum of messages, and the maximum a second (None: unlimited)."""

    messages: int
    rate: float | None = None


class Stream(threading.Thread):
    """A thread that sends until `end` was called and `pace.messages` were sent, then waits for all reports."""

    def __init__(
        self,
        options: Mapping[str, Any],
        preset: Preset,
        topic: str,
        pace: Pace,
        producer: int = 1,
        statistics: ProducerStatistics | None = None,
    ) -> None:
        """Set up the client. `statistics`: counts what is sent after the first message."""
        super().__init__(name=f"producer {producer}", daemon=True)
        self.journal = Journal()
        self.error: KafkaException | SystemError | None = None
        self._preset, self._topic, self._pace, self._producer = preset, topic, pace, producer
        self._options = {**preset.options, **options, **QUIET}
        self._statistics = statistics
        if statistics is not None:
            self._options |= {"stats_cb": statistics, "statistics.interval.ms": STATISTICS_MS}
        self._client = Producer(self._options)
        self._ended, self._open = threading.Event(), list[int]()
        self._committed = time.monotonic()

    def leave(self) -> None:
        """Make it end with the messages sent so far, without waiting."""
        self._pace = replace(self._pace, messages=0)
        self._ended.set()

    def end(self) -> Journal:
        """Make it end, and wait until it did. Raises the error that ended it early."""
        self._ended.set()
        self.join()
        if self.error is not None:
            raise self.error
        return self.journal

    def run(self) -> None:
        """Send, commit if the preset does, and wait for the reports."""
        try:
            self._run()
        except (KafkaException, SystemError) as error:
            self.error = error

    def _run(self) -> None:
        if self._preset.waits == "commit":
            self._client.init_transactions(60)
            self._client.begin_transaction()
        self._warm_up()
        started = time.monotonic()
        while not self._ended.is_set() or self.journal.total < self._pace.messages:
            try:
                due = started + self.journal.total / self._pace.rate if self._pace.rate else 0.0
                self._client.poll(max(0.0, due - time.monotonic()))
                self._send()
                self._wait_for_answer()
            except KafkaException as error:
                self._after(error.args[0])
        self._settle()

    def _warm_up(self) -> None:
        """Send a message that is not counted: the first waits for connections and a producer id, up to a second."""
        self._client.produce(self._topic, OTHER)
        self._flush(SETTLED_SECONDS)
        if self._statistics is not None:
            self._count(self._statistics, 1)
            self._statistics.restart()

    def _count(self, statistics: ProducerStatistics, messages: int) -> None:
        """Wait until the statistics have this many messages: they come every STATISTICS_MS."""
        until = time.monotonic() + SETTLED_SECONDS
        while statistics.messages < messages and time.monotonic() < until:
            self._client.poll(STATISTICS_MS / 1_000)

    def _send(self) -> None:
        now = time.monotonic_ns()
        number = self.journal.sent(now)
        at = number * 64 % (len(_PADDING) - SIZE)
        value = HEAD.pack(self._producer, number, now) + _PADDING[at : at + SIZE - HEAD.size]
        key = b"%d" % (number % KEYS)
        try:
            while not self._took(number, value, key):
                self._client.poll(0.1)  # the queue is full: until it has space
        except KafkaException:
            self.journal.failed((number,), time.monotonic_ns())
            raise

    def _took(self, number: int, value: bytes, key: bytes) -> bool:
        try:
            self._client.produce(self._topic, value, key, on_delivery=partial(self._reported, number))
        except BufferError:
            return False
        return True

    def _after(self, error: KafkaError) -> None:
        """Continue after a fatal error: of an idempotent producer whose numbers no longer match the log's, or of a
        transaction that must end. Raises any other.
        """
        if not error.fatal() and error.code() not in _LAST:
            raise KafkaException(error)
        if self._preset.waits == "commit":
            self._give_up(error)
            self._client.begin_transaction()
        else:
            self._restart()

    def _reported(self, number: int, error: KafkaError | None, _message: object) -> None:
        now = time.monotonic_ns()
        if error is not None:
            self.journal.failed((number,), now)
        elif self._preset.waits == "commit":
            self._open.append(number)
        else:
            self.journal.delivered((number,), now)

    def _wait_for_answer(self) -> None:
        if self._preset.waits == "each":
            self._flush()
        elif self._preset.waits == "commit" and time.monotonic() - self._committed >= COMMIT_SECONDS:
            self._commit()
            self._client.begin_transaction()

    def _commit(self) -> None:
        until = time.monotonic() + SETTLED_SECONDS
        while True:
            try:
                self._client.commit_transaction(60)
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.retriable() and time.monotonic() < until:
                    continue
                self._give_up(error)
            except SystemError:  # a fatal error in the midst of callbacks
                self._restart()
                self.journal.failed(self._taken(), time.monotonic_ns())
            else:
                self.journal.delivered(self._taken(), time.monotonic_ns())
            break
        self._committed = time.monotonic()

    def _give_up(self, error: KafkaError) -> None:
        """Abort; if that fails, continue with a new producer."""
        try:
            if not error.txn_requires_abort():
                raise KafkaException(error)
            self._client.abort_transaction(60)
        except KafkaException:
            self._restart()
        self.journal.failed(self._taken(), time.monotonic_ns())

    def _restart(self) -> None:
        """Continue with a new producer, like a process that is restarted after a fatal error."""
        self._drop()
        self._client = Producer(self._options)
        if self._preset.waits == "commit":
            self._client.init_transactions(60)

    def _taken(self) -> Sequence[int]:
        taken, self._open = self._open, []
        return taken

    def _settle(self) -> None:
        if self._preset.waits == "commit":
            self._commit()
        if self._flush(SETTLED_SECONDS):
            self._drop()
        elif self._statistics is not None:
            self._count(self._statistics, self.journal.total)

    def _drop(self) -> None:
        """Drop the unreported messages: they have failed."""
        self._client.purge()
        self._flush(10)

    def _flush(self, seconds: float = inf) -> int:
        """Wait until all messages are reported. Return the number of unreported ones.

        The library's own flush also calls back after a fatal error, while that is being raised: Python raises a
        SystemError, and the message is not recorded.
        """
        until = time.monotonic() + seconds
        while len(self._client) and time.monotonic() < until:
            try:
                self._client.poll(0.1)
            except KafkaException as error:
                if not error.args[0].fatal():
                    raise
        return len(self._client)
