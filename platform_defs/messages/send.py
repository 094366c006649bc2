"""`tidegate send`: values become messages, and each is acknowledged, or reported as not sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from platform_defs.errors import (
    AccessDenied,
    BrokerAway,
    NotDelivered,
    ProducerBroken,
    TidegateError,
    TopicMissing,
    TransactionAborted,
)
from platform_defs.messages.lines import Line, Lines
from platform_defs.messages.outgoing import Checked, Outgoing, Refused, Unchecked
from platform_defs.producers.message import Delivered, Message

if TYPE_CHECKING:
    from platform_defs.producers.producer import Producer

BLOCK = 1_000  # messages between two reports; with the preset transactional, in one transaction
MAX_WAITING = 100_000  # acknowledged messages that wait for an earlier one: results are in order


@dataclass(frozen=True)
class Sent:
    """The outcome of the value `number`: its message's place, or the error. `offset`: None without acknowledgements
    (acks=0); `timestamp`: ms since the epoch.
    """

    number: int
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    error: TidegateError | None = None


@dataclass
class _Handed:
    """A message that was passed to the producer."""

    number: int
    message: Message
    result: Delivered | TidegateError | None = None


@dataclass
class Sending:
    """The sending of values. It passes each outcome, in order, to `report`.

    It stops at the first message that is not acknowledged, and at a value that is `refused`. `last`: the number of the
    last value that was sent.
    """

    report: Callable[[Sequence[Sent]], None]
    sent: int = 0
    failed: list[Sent] = field(default_factory=list[Sent])
    refused: Refused | None = None
    last: int = 0
    _handed: deque[_Handed] = field(default_factory=deque[_Handed])
    _by_message: dict[int, _Handed] = field(default_factory=dict[int, _Handed])
    _failing: bool = False

    def note(self, message: Message, result: Delivered | NotDelivered) -> None:
        """Record the outcome of a message: the producer's `on_delivery`."""
        if (item := self._by_message.get(id(message))) is not None:  # else its transaction was aborted before
            item.result = result
        self._failing = self._failing or isinstance(result, NotDelivered)

    def send(self, lines: Lines, maker: Checked | Unchecked, producer: Producer) -> None:
        """Send every value, and wait until all are acknowledged or have failed. The producer reports to `note`.

        Raises BadInput for values that cannot be read, and UnsentLost; earlier messages are reported.
        """
        why: TidegateError = NotDelivered(_UNKNOWN, reason="_PURGE_INFLIGHT")  # of messages without a result
        try:
            with suppress(NotDelivered), producer:  # `note` recorded it
                for portion in portions(lines):
                    self._send_all(maker.messages(portion), producer)
                    if self._failing or self.refused is not None:
                        break
                    if len(self._handed) > MAX_WAITING or not lines.more_is_there():
                        producer.flush()
                    self._report_known()
        except (AccessDenied, BrokerAway, ProducerBroken, TopicMissing) as error:  # the producer cannot continue
            why = error
        finally:
            for item in self._handed:  # every other message is reported with `why`, also one that was given up
                given_up = isinstance(item.result, NotDelivered) and item.result.reason in _GIVEN_UP
                item.result = why if item.result is None or given_up else item.result
            self._report_known()

    def _send_all(self, made: Sequence[Outgoing | Refused], producer: Producer) -> None:
        """Send the messages before the first value that is refused."""
        messages = list[Outgoing]()
        for item in made:
            if isinstance(item, Refused):
                self.refused = item
                break
            messages.append(item)
        if producer.chosen.preset.waits == "commit":
            self._commit(messages, producer)
            return
        for item in messages:
            with suppress(NotDelivered):
                producer.send(self._hand(item).message)
            if self._failing:
                return

    def _commit(self, messages: Sequence[Outgoing], producer: Producer) -> None:
        """Send the messages in one transaction: all of them or none are delivered."""
        handed = [self._hand(item) for item in messages]
        try:
            with producer.transaction():
                for item in handed:
                    producer.send(item.message)
        except TransactionAborted as error:
            self._failing = True
            for item in handed:
                item.result = error
        except BaseException:  # also Ctrl-C
            for item in handed:
                item.result = None  # a message counts once its transaction is committed
            raise

    def _hand(self, item: Outgoing) -> _Handed:
        handed = _Handed(*item)
        self._handed.append(handed)
        self._by_message[id(item.message)] = handed
        self.last = item.number
        return handed

    def _report_known(self) -> None:
        """Report the outcomes of the messages before the first one without a result."""
        known = list[Sent]()
        while self._handed and (result := self._handed[0].result) is not None:
            item = self._handed.popleft()
            del self._by_message[id(item.message)]
            if isinstance(result, TidegateError):
                known.append(Sent(item.number, error=result))
            else:
                offset = None if result.offset is None or result.offset < 0 else result.offset
                known.append(Sent(item.number, result.partition, offset, result.timestamp))
        self.sent += sum(item.error is None for item in known)
        self.failed += [item for item in known if item.error is not None]
        if known:
            self.report(known)


_GIVEN_UP = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")
_UNKNOWN = "the producer ended before Kafka acknowledged the message"


def portions(lines: Lines) -> Iterator[Sequence[Line]]:
    """Yield all lines, at most BLOCK at a time."""
    for block in lines.blocks():
        for start in range(0, len(block), BLOCK):
            yield block[start : start + BLOCK]
