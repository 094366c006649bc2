"""A producer's transactions, and librdkafka's rules after each of their errors.

https://github.com/confluentinc/librdkafka/blob/v2.16.0/INTRODUCTION.md#transactional-producer: a retriable error is
answered by the same call again; one that requires it by an abort and another transaction; any other ends the producer.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from platform_defs.errors import (
    AccessDenied,
    BrokerAway,
    NotDelivered,
    ProducerBroken,
    ProducerFenced,
    TransactionAborted,
    error_policy,
)
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.kafka.client.refusals import refusal, remedy
from platform_defs.kafka.client.rights import Right, to_write
from platform_defs.producers.outcomes import outcome_of
from platform_defs.producers.producer_client import ListeningProducer

AGAIN = (
    "Start again: a new producer with the same transactional.id completes or aborts the transaction that this one "
    "left open"
)
PAUSE = 0.1  # seconds between two calls, since the first may have failed at once
SLICE = 1.0  # seconds that librdkafka waits in one call, which Ctrl-C does not interrupt
_FENCED = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"}
_WRONG_STATE = "_STATE"  # from an abort: there is no transaction; from another call: it failed meanwhile


class Transactions:
    """The transactions of `client`, one after the other."""

    def __init__(self, client: ListeningProducer, topic: str, patience: float, options: Mapping[str, Any]) -> None:
        """`patience`: seconds for which a repeatable call is repeated. `options`: the client's."""
        self._client, self._topic, self._patience, self._options = client, topic, patience, options
        self._needed = [to_write(topic)]
        if (name := options.get("transactional.id")) is not None:
            self._needed.append(Right("transactional-id", name, ("Write",)))
        self._known = False  # to the coordinator

    @contextmanager
    def one(self) -> Generator[None]:
        """Open a transaction: committed at its end, aborted if an error leaves it. See Producer.transaction."""
        if not self._known:
            self._insist(lambda: self._client.init_transactions(self._patience))
            self._known = True
        self._insist(self._client.begin_transaction)
        try:
            yield
        except ProducerBroken:
            raise
        except BaseException as error:
            first = self._first_error()
            refused = None if first is None else self._refused(first)
            self._abort(refused or error)
            if refused is not None and isinstance(error, NotDelivered | TransactionAborted):
                raise refused from error
            raise
        self._commit()

    def add_offsets(self, offsets: Sequence[TopicPartition], group: str, member: Any) -> None:
        """Commit the offsets of a consumer group, with `member` in it, in the open transaction."""
        needed = Right("group", group, ("Read",)), Right("topic", self._topic, ("Read",))
        self._needed += [right for right in needed if right not in self._needed]
        self._insist(lambda: self._client.send_offsets_to_transaction(list(offsets), member, self._patience))

    def broken(self, error: KafkaError) -> ProducerBroken | None:
        """Return the error to raise if the producer cannot continue; None if it can."""
        if error.name() in _FENCED:
            return ProducerFenced(
                f"another producer of {self._topic} with the same transactional.id took over: {error.str()}. This "
                "producer writes nothing more; stop it, or give one of the two a different transactional.id"
            )
        if error.fatal() or error.name() == "_FATAL":
            why = remedy(error, self._needed, self._options) or AGAIN
            return ProducerBroken(
                f"the producer for {self._topic} cannot continue: {error.str()} ({error.name()}). {why}"
            )
        return None

    def _commit(self) -> None:
        self._insist(lambda: self._client.commit_transaction(SLICE))

    def _first_error(self) -> KafkaError | None:
        """Return why the open transaction failed, if it did. librdkafka reports it when another is begun; if one
        begins, because this one is aborted already, it must be aborted as well.
        """
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            return reason if reason.txn_requires_abort() else None
        return None

    def _abort(self, why: BaseException) -> None:
        """Abort. Raises what ends the producer. It is no error if there is no transaction; nor, if a right is missing,
        if the coordinator knows none: librdkafka may ask it to end one that it was never allowed to join.
        """
        try:
            self._insist(lambda: self._client.abort_transaction(SLICE), aborting=True)
        except ProducerFenced:
            raise
        except ProducerBroken as error:
            cause = error.__cause__
            none_open = isinstance(cause, KafkaException) and cause.args[0].name() == _WRONG_STATE
            if not (none_open or isinstance(why, AccessDenied)):
                raise

    def _insist(self, call: Callable[[], object], *, aborting: bool = False) -> None:
        """Call until it succeeds, while its errors are retriable. Raises the meaning of an error that is not, or that
        persists after `patience`. `aborting`: an error that requires another abort is retriable as well.
        """
        deadline = time.monotonic() + self._patience
        while True:
            try:
                call()
            except SystemError as error:  # a fatal error, raised while librdkafka was calling back
                raise ProducerBroken(f"the producer for {self._topic} cannot continue: {error}. {AGAIN}") from error
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                again = reason.retriable() or (aborting and reason.txn_requires_abort())
                if not again or time.monotonic() > deadline:
                    raise self._meaning(reason, aborting=aborting) from error
                time.sleep(PAUSE)
            else:
                return

    def _meaning(self, reason: KafkaError, *, aborting: bool) -> Exception:
        if not aborting and reason.txn_requires_abort() and reason.name() == _WRONG_STATE:
            reason = self._first_error() or reason
        message = f"{reason.str()} ({reason.name()})"
        if not aborting and reason.txn_requires_abort():
            found = self._refused(reason) or TransactionAborted(
                f"a transaction on {self._topic} was aborted, so consumers see none of it: {message}. Its messages "
                "can be sent again",
                code=reason.code(),
                reason=reason.name(),
                outcome=outcome_of(reason.code()),
            )
            self._abort(found)
            return found
        if reason.retriable() and not self._known:
            if (denied := self._client.connection_log.denied) is not None and (
                refused := self._refused(denied)
            ) is not None:
                return refused
            return BrokerAway(f"a transaction on {self._topic} could not begin within {self._patience:g} s: {message}")
        return (
            self._refused(reason)
            or self.broken(reason)
            or ProducerBroken(f"the producer for {self._topic} cannot continue: {message}. {AGAIN}")
        )

    def _refused(self, reason: KafkaError) -> Exception | None:
        """Return the error if a right is missing: sending again does not help."""
        if error_policy.of_kafka(reason.name()) is not ErrorPolicy.DENIED:
            return None
        place = f"a transaction on {self._topic} (consumers see none of it)"
        return refusal(reason, place, self._needed, self._options)
