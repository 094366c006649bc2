"""Generated messages, sent as a preset says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from platform_defs.errors import NotDelivered, TransactionAborted
from platform_defs.producers.message import Message

if TYPE_CHECKING:
    from platform_defs.producers.producer import Producer
    from platform_defs.samples.mixture import Mixture

COMMIT_EVERY = 10_000  # messages of a transaction at most
TRIES = 3  # of a transaction that was aborted


class Sending:
    """Sends messages from `mixture` until one fails; the producer then has the reason (`counts`)."""

    def __init__(self, producer: Producer, mixture: Mixture, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
        """`headers` are added to every message."""
        self.producer, self.mixture, self._headers = producer, mixture, headers
        self._started = self._ended = time.monotonic()

    @property
    def total(self) -> int:
        """The number of messages passed to the producer."""
        return self.mixture.taken

    @property
    def failed(self) -> bool:
        return bool(self.producer.counts.failed)

    @property
    def seconds(self) -> float:
        """The seconds from the start until everything was acknowledged (`finish`)."""
        return self._ended - self._started

    def send(self, count: int) -> None:
        """Send the next `count` messages; fewer if one fails."""
        headers = self._headers
        messages = (
            Message(sample.value, sample.key, (*headers, *sample.headers)) for sample in self.mixture.take(count)
        )
        if self.producer.chosen.preset.waits != "commit":
            send, failed = self.producer.send, self.producer.counts.failed
            with suppress(NotDelivered):  # `counts` has it
                for message in messages:
                    send(message)
                    if failed:
                        return
            return
        while not self.failed and (some := list(islice(messages, COMMIT_EVERY))):
            self._commit(some)

    def finish(self) -> None:
        """Wait until everything is acknowledged or has failed."""
        with suppress(NotDelivered):  # `counts` has it
            self.producer.flush()
        self._ended = time.monotonic()

    def _commit(self, messages: Sequence[Message]) -> None:
        """Send the messages in one transaction. An aborted one is tried again, unless it would fail again."""
        for tries in range(1, TRIES + 1):
            try:
                with self.producer.transaction():
                    for message in messages:
                        self.producer.send(message)
            except TransactionAborted as error:
                if error.outcome == "poison" or tries == TRIES:
                    self.producer.counts.failed[error.reason] += len(messages)
                    return
            else:
                return
