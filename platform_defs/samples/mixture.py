"""Generated messages of a contract, written with its messages' schemas: good ones with bad ones among them, counted.

They are sent as a preset says.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import NotDelivered, TransactionAborted
from platform_defs.producers.message import Message
from platform_defs.samples.samples import Sample, Samples
from platform_defs.schemas.conversion.writer_schemas import message_schemas

if TYPE_CHECKING:
    from platform_defs.producers.producer import Producer
    from platform_defs.settings.registry_address import Registry

COMMIT_EVERY = 10_000  # messages of a transaction at most
TRIES = 3  # of a transaction that was aborted


class Source(Protocol):
    """Makes samples: of bare JSON (`Samples`), or of any format (`EncodedSamples`)."""

    def good(self, count: int) -> Iterator[Sample]: ...
    def bad(self, number: int, good: Sample) -> Sample: ...


class Mixture:
    """Takes samples, a share of them bad, spread evenly, with the kinds of bad messages in turn."""

    def __init__(self, samples: Source, bad_share: float) -> None:
        self._samples, self._share = samples, bad_share
        self.taken = self.tombstones = 0
        self.bad = Counter[str]()  # by the reason that the dead letter must give

    @property
    def good(self) -> int:
        """Messages taken that become rows."""
        return self.taken - self.tombstones - self.bad.total()

    def take(self, count: int) -> Iterator[Sample]:
        """Yield the next `count` messages."""
        number = self.bad.total()
        for sample in self._samples.good(count):
            self.taken += 1
            taken = self._samples.bad(number, sample) if number < round(self.taken * self._share) else sample
            if taken.reason is not None:
                self.bad[taken.reason] += 1
                number += 1
            elif taken.value is None:
                self.tombstones += 1
            yield taken


def samples_of(
    contract: Contract, address: Registry | None, seed: int | None
) -> tuple[Source, Sequence[tuple[str, bytes]]]:
    """Return the source of generated messages for the contract, and the headers of each message.

    Raises BadInput if the subject has no schema that fits, and RegistryAway.
    """
    schemas = message_schemas(contract, address, keyed=contract.reads_keys)
    if schemas is None:
        return Samples(contract, seed), ()
    from platform_defs.samples.encoded import EncodedSamples

    samples = EncodedSamples(contract, schemas, seed)
    return samples, samples.headers


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
