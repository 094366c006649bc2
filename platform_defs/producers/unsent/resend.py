"""`tidegate unsent send`: undelivered messages are searched for in the log, and sent again if they are not there.

1. Lock the pipeline's messages for this process, and wait until an earlier one that died cannot send any more.
2. Refuse messages that cannot be searched for: another cluster or topic, deleted by retention, or without an id.
3. Search for the others by `tidegate-id`, after the ends that the log had before their first try. Found: settled.
4. Record that the rest is about to be sent, send it with the same ids, and record the outcomes.

A process that dies between sending and recording leaves messages that step 3 finds the next time.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from platform_defs.errors import NotDelivered, TopicMissing
from platform_defs.errors.words import plural
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import TopicView
from platform_defs.producer_options.config import choose
from platform_defs.producer_options.options import PROMISED, Value
from platform_defs.producer_options.partitioners import OF_TOPICS_THAT_EXIST
from platform_defs.producer_options.presets import DEFAULT
from platform_defs.producers.message import ID, Delivered, Message
from platform_defs.producers.outcomes import Outcome
from platform_defs.producers.producer import Producer
from platform_defs.producers.undelivered import UnsentMessage, in_portions
from platform_defs.producers.unsent.ledger import HeldUnsent, UnsentId, UnsentLedger
from platform_defs.producers.unsent.search import Refusal, refusal, search

LOOKED_FOR = 50_000  # messages in one pass over the log
AT_ONCE = 1_000  # messages, sent before their outcomes are recorded
SECONDS = 30.0  # in which a message is acknowledged or has failed
SLACK = 5.0  # seconds after message.timeout.ms in which a broker may still write received messages
OF_ONE = {"_UNKNOWN_PARTITION"}  # errors that do not affect other messages
DEFAULT_OUTCOMES: tuple[Outcome, ...] = ("not_written", "unknown")
WAITING = "an earlier tidegate unsent send did not end and may still be sending: waiting for {:.0f} s"


class Resender:
    """A producer with the preset asynchronous: it loses, doubles and reorders nothing while it lives."""

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
        again = list[Message]()
        for unsent in messages:  # as it was, with an id if it had none: after an interrupt, it is found by that
            named = (ID, unsent.tidegate_id)
            headers = unsent.headers if named in unsent.headers else (*unsent.headers, named)
            again.append(Message(unsent.value, unsent.key, headers, unsent.partition, unsent.timestamp_ms))
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


@dataclass(frozen=True)
class Choice:
    """The messages to send again. `may_double`: also those that cannot be searched for; `may_overwrite`: also those
    whose key has, or had, a newer message in the log.
    """

    outcomes: Sequence[Outcome] = DEFAULT_OUTCOMES
    may_double: bool = False
    may_overwrite: bool = False


@dataclass
class Resent:
    """The outcomes of messages: the numbers found in the log, sent, refused by reason, and not delivered by error."""

    found: int = 0
    sent: int = 0
    refused: Counter[Refusal] = field(default_factory=Counter[Refusal])
    failed: Counter[str] = field(default_factory=Counter[str])  # by the name of the error
    stopped: bool = False  # after failures for another reason than the content: the rest was not tried

    @property
    def is_complete(self) -> bool:
        return not (self.refused or self.failed or self.stopped)


@dataclass(frozen=True)
class Resending:
    """The resending of one pipeline's messages by `who`. `of_state`: its table has the latest message of each key."""

    pipeline: str
    ledger: UnsentLedger
    broker: KafkaBroker
    source: KafkaSource
    senders: Callable[[str], Resender]  # of a topic
    who: str
    show: Callable[[str], None]
    of_state: bool = False

    def run(self, choice: Choice) -> Resent:
        """Send the open messages of `choice`. Raises PipelineHeld, BrokerAway, LedgerAway, LedgerMissing; messages
        settled by then stay settled.
        """
        done = Resent()
        with self.ledger.hold(self.pipeline) as held:
            while (left := held.seconds_under_way()) > 0:
                self.show(WAITING.format(left))
                time.sleep(min(left, 5.0))  # until pending messages have timed out; shown every five seconds
            after = 0
            while not done.stopped and (portion := held.ids(choice.outcomes, after, LOOKED_FOR)):
                self._portion(held, portion, choice, done)
                after = portion[-1].number
        return done

    def _portion(self, held: HeldUnsent, portion: Sequence[UnsentId], choice: Choice, done: Resent) -> None:
        for topic in sorted({item.log.before.topic for item in portion}):
            of_topic = [item for item in portion if item.log.before.topic == topic]
            try:
                now = self.broker.describe(topic)
            except TopicMissing:
                done.refused[Refusal("topic_missing", f"topic {topic} does not exist", may_be_lifted=False)] += len(
                    of_topic
                )
                continue
            if allowed := list(_allowed(of_topic, now, choice, done)):
                self._resend(held, now, allowed, choice, done)

    def _resend(
        self, held: HeldUnsent, now: TopicView, allowed: Sequence[UnsentId], choice: Choice, done: Resent
    ) -> None:
        keys = held.keys(allowed) if (self.of_state or now.compacted) and not choice.may_overwrite else {}
        found, overwriting = search(self.source, now, allowed, self.show, keys)
        places = {item.unsent_id: found[item.tidegate_id] for item in allowed if item.tidegate_id in found}
        held.settle("found", self.who, places)
        done.found += len(places)
        rest = [item for item in allowed if item.unsent_id not in places]
        sent = [item for item in rest if item.unsent_id not in overwriting]
        if len(sent) < len(rest):
            done.refused[NEWER] += len(rest) - len(sent)
        refused = dict(_overwriting([item for item in sent if item.unsent_id in keys], now))
        done.refused.update(refused.values())
        self._send(held, now.topic, [item for item in sent if item.unsent_id not in refused], done)

    def _send(self, held: HeldUnsent, topic: str, items: Sequence[UnsentId], done: Resent) -> None:
        sender = self.senders(topic) if items else None
        for batch in in_portions(items, AT_ONCE, lambda item: item.bytes):
            assert sender is not None  # noqa: S101  # there are items
            failed = self._try(held, sender, batch, done)
            if len(batch) > 1:  # brokers refuse a batch as a whole, for its size or for one message in it
                poison = {key for key, error in failed.items() if error.outcome == "poison"}
                for item in [one for one in batch if one.unsent_id in poison]:
                    del failed[item.unsent_id]
                    failed |= self._try(held, sender, [item], done)
            held.fail({key: (error.code, error.reason, error.outcome) for key, error in failed.items()})
            done.failed.update(error.reason for error in failed.values())
            self.show(f"{plural(done.sent, 'message')} sent to {topic}")
            if any(error.outcome != "poison" and error.reason not in OF_ONE for error in failed.values()):
                done.stopped = True
                return

    def _try(
        self, held: HeldUnsent, sender: Resender, batch: Sequence[UnsentId], done: Resent
    ) -> dict[UUID, NotDelivered]:
        """Send the messages, and settle the delivered ones. Return the errors of the others."""
        ids = [item.unsent_id for item in batch]
        held.trying(ids, SECONDS + SLACK)
        reported = sender.send(held.messages(ids))
        sent = {key: place for key, place in reported.items() if not isinstance(place, NotDelivered)}
        held.settle("sent", self.who, sent)
        done.sent += len(sent)
        return {key: error for key, error in reported.items() if isinstance(error, NotDelivered)}


NEWER = Refusal("newer_in_log", "the log has a message with the same key that may be newer, which they would overwrite")

GONE = Refusal(
    "newer_gone",
    "later messages are gone from the log, and one of them may have had the same key: its row would be overwritten",
)

TOMBSTONE = Refusal(
    "tombstone_gone",
    "they are older than delete.retention.ms: a later tombstone for their key may be gone from the log",
)


def _allowed(items: Sequence[UnsentId], now: TopicView, choice: Choice, done: Resent) -> Iterator[UnsentId]:
    """Yield the messages that may be sent; count the others."""
    reasons = {log: refusal(log, now) for log in {item.log for item in items}}
    for item in items:
        why = reasons[item.log]
        if why is None or (why.may_be_lifted and choice.may_double):
            yield item
        else:
            done.refused[why] += 1


def _overwriting(items: Sequence[UnsentId], now: TopicView) -> Iterator[tuple[UUID, Refusal]]:
    """Yield the messages that may overwrite a newer one of their key that is gone from the log, with the reason."""
    reasons = {log: refusal(log, now) for log in {item.log for item in items}}
    since = None if now.tombstone_seconds is None else time.time() - now.tombstone_seconds
    for item in items:
        why = reasons[item.log]
        if why is not None and why.code in ("topic_recreated", "retention_passed", "log_truncated"):
            yield item.unsent_id, GONE
        elif since is not None and item.first_try <= since:
            yield item.unsent_id, TOMBSTONE


def _place(found: Delivered | NotDelivered) -> tuple[int, int] | NotDelivered:
    if isinstance(found, NotDelivered):
        return found
    assert found.offset is not None  # noqa: S101  # acks=all
    return found.partition, found.offset
