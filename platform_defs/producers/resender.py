"""Resends undelivered messages, each with its own id, to its original partition."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from platform_defs.errors import NotDelivered
from platform_defs.producer_options.config import choose
from platform_defs.producer_options.options import PROMISED, Value
from platform_defs.producer_options.partitioners import OF_TOPICS_THAT_EXIST
from platform_defs.producer_options.presets import DEFAULT
from platform_defs.producers.message import ID, Delivered, Message
from platform_defs.producers.producer import Producer
from platform_defs.producers.undelivered import UnsentMessage

SECONDS = 30.0  # in which a message is acknowledged or has failed


class Resender:
    """A producer with the preset asynchronous: it loses, doubles and reorders nothing while it lives."""

    seconds = SECONDS

    def __init__(self, options: Mapping[str, Any], topic: str, given: Mapping[str, Value], client_id: str) -> None:
        """`given` are the contract's options: its partitioner is for messages that had no partition yet.

        Raises BadInput, TopicMissing, BrokerAway.
        """
        tuned = {name: value for name, value in given.items() if name not in PROMISED}
        partitioner = given.get("partitioner", OF_TOPICS_THAT_EXIST)
        own = {"message.timeout.ms": int(SECONDS * 1_000), "partitioner": partitioner}
        chosen = choose(DEFAULT, contract=tuned, environment=options, given=own)
        self._reported: dict[int, Delivered | NotDelivered] = {}  # by Python's id of the message
        self._producer = Producer(options, topic, chosen, client_id=client_id, ids=False, on_delivery=self._note)

    def send(self, messages: Sequence[UnsentMessage]) -> dict[UUID, tuple[int, int] | NotDelivered]:
        """Return each message's outcome: its partition and offset, or the error."""
        self._reported.clear()
        again = [_message(message) for message in messages]
        for message in again:
            try:
                self._producer.send(message)
            except NotDelivered as error:  # librdkafka did not take it
                self._reported[id(message)] = error
        with suppress(NotDelivered):  # each message has its own
            self._producer.flush()
        reported = zip(messages, (self._reported[id(message)] for message in again), strict=True)
        return {message.unsent_id: _place(found) for message, found in reported}

    def _note(self, message: Message, found: Delivered | NotDelivered) -> None:
        self._reported[id(message)] = found


def _message(unsent: UnsentMessage) -> Message:
    """Return the original message, with an id if it had none: after an interrupt, it is found by that."""
    named = (ID, unsent.tidegate_id)
    headers = unsent.headers if named in unsent.headers else (*unsent.headers, named)
    return Message(unsent.value, unsent.key, headers, unsent.partition, unsent.timestamp_ms)


def _place(found: Delivered | NotDelivered) -> tuple[int, int] | NotDelivered:
    if isinstance(found, NotDelivered):
        return found
    assert found.offset is not None  # noqa: S101  # acks=all
    return found.partition, found.offset
