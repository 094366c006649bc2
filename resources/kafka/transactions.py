"""Transactions of a producer, and what librdkafka says to do after each of their errors.

https://github.com/confluentinc/librdkafka/blob/v2.16.0/INTRODUCTION.md#transactional-producer: an error that is
retriable is answered by the same call again; one that requires it by an abort and another transaction; any other ends
the producer.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from platform_defs.errors import BadInput, BrokerAway, ProducerBroken, ProducerFenced, TransactionAborted
from platform_defs.producing.outcomes import outcome_of

AGAIN = "Start again: a new producer with the same transactional.id finishes or aborts what this one left open"
_FENCED = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"}
_NO_RIGHT = {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"}
_NO_TRANSACTION = "_STATE"  # of an abort: there is none


class Transactions:
    """The transactions of `client`, one after the other."""

    def __init__(self, client: confluent_kafka.Producer, topic: str, patience: float) -> None:
        """`patience`: seconds for which a call that can be repeated is."""
        self._client, self._topic, self._patience = client, topic, patience
        self._known = False  # to the coordinator

    @contextmanager
    def one(self) -> Generator[None]:
        """A transaction: committed at its end, aborted where an error leaves it. See Producer.transaction."""
        self._begin()
        try:
            yield
        except ProducerBroken:
            raise
        except BaseException:
            self._abort()
            raise
        self._commit()

    def add_offsets(self, offsets: Sequence[TopicPartition], group: Any) -> None:
        """Commit the offsets of a consumer group with the transaction that is open."""
        self._insist(lambda: self._client.send_offsets_to_transaction(list(offsets), group, self._patience))

    def broken(self, error: KafkaError) -> ProducerBroken | None:
        """The error to raise where the producer cannot go on; None where it can."""
        if error.name() in _FENCED:
            return ProducerFenced(
                f"another producer of {self._topic} with the same transactional.id took over: {error.str()}. This one "
                "writes nothing more; end it, or give one of them another transactional.id"
            )
        if error.fatal() or error.name() == "_FATAL":
            return ProducerBroken(
                f"the producer of {self._topic} cannot go on: {error.str()} ({error.name()}). {AGAIN}"
            )
        return None

    def _begin(self) -> None:
        if not self._known:
            self._insist(lambda: self._client.init_transactions(self._patience))
            self._known = True
        self._insist(self._client.begin_transaction)

    def _commit(self) -> None:
        self._insist(self._client.commit_transaction)

    def _abort(self) -> None:
        """Raises what ends the producer; that there is no transaction to abort is no error."""
        try:
            self._insist(self._client.abort_transaction)
        except ProducerBroken as error:
            cause = error.__cause__
            if not (isinstance(cause, KafkaException) and cause.args[0].name() == _NO_TRANSACTION):
                raise

    def _insist(self, call: Callable[[], object]) -> None:
        """Call until it succeeds, while its errors are retriable. Raises what follows from the error that is not."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                call()
            except SystemError as error:  # a fatal error, raised while librdkafka was calling back
                raise ProducerBroken(f"the producer of {self._topic} cannot go on: {error}. {AGAIN}") from error
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not reason.retriable() or time.monotonic() > deadline:
                    raise self._meaning(reason) from error
            else:
                return

    def _meaning(self, reason: KafkaError) -> Exception:
        said = f"{reason.str()} ({reason.name()})"
        if reason.txn_requires_abort():
            self._abort()
            return self._refused(reason) or TransactionAborted(
                f"a transaction on {self._topic} was aborted, nobody reads any of it: {said}. It can be sent again",
                code=reason.code(),
                reason=reason.name(),
                outcome=outcome_of(reason.code()),
            )
        if reason.retriable() and not self._known:
            return BrokerAway(f"Kafka has not let a transaction on {self._topic} begin in {self._patience:g} s: {said}")
        return (
            self._refused(reason)
            or self.broken(reason)
            or ProducerBroken(f"the producer of {self._topic} cannot go on: {said}. {AGAIN}")
        )

    def _refused(self, reason: KafkaError) -> Exception | None:
        """The error where a right is missing: to send again does not help."""
        if reason.name() not in _NO_RIGHT:
            return None
        return BadInput(
            f"Kafka refuses a transaction on {self._topic}: {reason.str()} ({reason.name()}). Nobody reads any of it. "
            "Let an administrator of Kafka grant Write and Describe on the TransactionalId and, where Dagster writes "
            "the topic, Read on the Group of its note"
        )
