"""`tidegate unsent send`: an undelivered message comes into the log once, whatever happened at its first try."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer as Other
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.errors import ChangedMeanwhile, NotDelivered
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange
from platform_defs.producer_options.config import NO_OPTIONS, choose
from platform_defs.producer_options.options import Value
from platform_defs.producers.message import ID, Ids, Message
from platform_defs.producers.outcomes import outcome_of
from platform_defs.producers.producer import Producer
from platform_defs.producers.unsent.files import UnsentFiles
from platform_defs.producers.unsent.ledger import Chosen, HeldUnsent, UnsentLedger
from platform_defs.producers.unsent.resend import Choice, Resender, Resending, Resent
from platform_defs.producers.unsent.sink import UnsentSink, kept_where
from tests.support.kafka.logs import transaction
from tests.support.world import World

Values = list[bytes | None]


class Desk:
    """A pipeline, a way to fail a producer on it, and the command that sends again."""

    def __init__(self, world: World, pipeline: Pipeline, folder: Any) -> None:
        world.ledger.migrate()
        self.world, self.pipeline = world, pipeline
        self.topic, self.options = pipeline.contract.topic, world.endpoints.kafka_options()
        self.ledger = UnsentLedger(world.endpoints.postgres_url)
        self.files = UnsentFiles(folder)
        self.broker = KafkaBroker(self.options)

    def sink(self, ledger: UnsentLedger | None = None) -> UnsentSink:
        return UnsentSink(self.pipeline.name, self.topic, self.broker, ledger or self.ledger, self.files)

    def producer(self, sink: UnsentSink, preset: str = "asynchronous", ids: bool = True, **options: Any) -> Producer:
        given = {name.replace("_", "."): value for name, value in options.items()}
        servers = {"bootstrap.servers": given.pop("bootstrap.servers")} if "bootstrap.servers" in given else {}
        return Producer({**self.options, **servers}, self.topic, choose(preset, given=given), ids=ids, unsent=sink)

    def fail(self, messages: list[Message], code: int, name: str, *, ids: bool = True) -> None:
        """Record these messages as undelivered with this error, though they were never written."""
        sink = self.sink()
        for message in messages:
            attempt = sink.attempt(message, str(uuid4()).encode() if ids else None)
            sink.failed(attempt, NotDelivered("", code=code, reason=name, outcome=outcome_of(code)), None)
        sink.keep(all_of_it=True)

    def send(self, options: Mapping[str, Value] = NO_OPTIONS, of_state: bool = False, **choice: Any) -> Resent:
        def sender(topic: str) -> Resender:
            return Resender(self.options, topic, options, "tidegate.test")

        source = KafkaSource(self.options, patience=5.0)
        given = (self.pipeline.name, self.ledger, self.broker, source, sender, "me", lambda _: None, of_state)
        return Resending(*given).run(Choice(**choice))

    def log(self) -> list[tuple[int, Any]]:
        """Return each committed message with its partition."""
        view = self.broker.describe(self.topic)
        source = KafkaSource(self.options, patience=5.0)
        found = list[tuple[int, Any]]()
        for number, held in view.partitions.items():
            for block in source.read(OffsetRange(self.topic, number, held.low, held.end)):
                found += [(number, block.message(index)) for index in range(len(block.values))]
        return found

    def values(self) -> Values:
        return sorted(message.value() for _, message in self.log())

    def open(self) -> dict[str, int]:
        counts = self.ledger.counts(self.pipeline.name, None, None)
        return {count.error_name: count.messages for count in counts if count.status == "open"}


@pytest.fixture
def desk(world: World, tmp_path: Any) -> Desk:
    return Desk(world, world.new_pipeline(), tmp_path / "unsent")


TIMED_OUT = (-192, "_MSG_TIMED_OUT")


def test_what_is_not_in_the_log_is_sent_once_with_its_bytes_partition_time_and_id(desk: Desk) -> None:
    given = Message(b"a", b"key", (("h", b"\xff"), ("none", None)), partition=3, timestamp_ms=1_700_000_000_000)
    desk.fail([given, Message(None, b"tombstone"), Message(b"", None)], *TIMED_OUT)
    assert desk.send() == Resent(sent=3)
    assert desk.send() == Resent()
    assert len(desk.log()) == 3
    ((partition, found),) = [item for item in desk.log() if item[1].value() == b"a"]
    assert (partition, found.key(), found.timestamp()[1]) == (3, b"key", 1_700_000_000_000)
    *headers, (name, named) = found.headers()
    assert headers == [("h", b"\xff"), ("none", None)]
    (line,) = [line for line in desk.ledger.lines(desk.pipeline.name, None, None, 10) if line["bytes"] == 1]
    assert (name, line["status"], line["settled_partition"], line["settled_offset"]) == (ID, "sent", 3, found.offset())
    assert named is not None


def test_an_unknown_message_that_was_written_is_found_and_not_sent_again(desk: Desk) -> None:
    sink = desk.sink()
    attempt = sink.attempt(Message(b"a"), b"the-id")
    desk.world.send(desk.pipeline, [b"x", b"a"], partition=2, headers=list(attempt.headers))
    sink.failed(attempt, NotDelivered("", code=-192, reason="_MSG_TIMED_OUT"), 2)
    sink.keep(all_of_it=True)
    assert desk.send() == Resent(found=1)
    (line,) = desk.ledger.lines(desk.pipeline.name, None, None, 10)
    assert (line["status"], line["settled_partition"], line["settled_by"]) == ("found", 2, "me")
    assert desk.values() == [b"a", b"x"]


def test_a_message_of_an_aborted_transaction_is_not_taken_for_written(desk: Desk) -> None:
    sink = desk.sink()
    attempt = sink.attempt(Message(b"a"), b"the-id")
    with transaction(desk.world, desk.pipeline, [b"before"]) as producer:
        producer.produce(desk.topic, b"a", headers=list(attempt.headers), partition=0)
        producer.flush(10)
        producer.abort_transaction()
    sink.failed(attempt, NotDelivered("", code=-192, reason="_MSG_TIMED_OUT"), 0)
    sink.keep(all_of_it=True)
    assert desk.send() == Resent(sent=1)
    assert desk.values() == [b"a"]


def test_a_crash_between_sending_and_recording_doubles_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.fail([Message(b"%d" % number) for number in range(5)], 19, "NOT_ENOUGH_REPLICAS")
    real = HeldUnsent.settle

    def die_after_sending(held: HeldUnsent, how: Any, who: str, places: Any) -> None:
        if how == "sent":
            raise KeyboardInterrupt
        real(held, how, who, places)

    with monkeypatch.context() as crash:
        crash.setattr(HeldUnsent, "settle", die_after_sending)
        with pytest.raises(KeyboardInterrupt):
            desk.send()
    assert len(desk.values()) == 5
    desk.world.rows("update tidegate.unsent set trying_until = now() where pipeline = %s", desk.pipeline.name)
    assert desk.send() == Resent(found=5)
    assert len(desk.values()) == 5


def test_poison_is_sent_only_if_it_is_asked_for(desk: Desk) -> None:
    sink = desk.sink()
    with pytest.raises(NotDelivered, match="MSG_SIZE_TOO_LARGE"), desk.producer(sink) as producer:
        producer.send(Message(bytes(1_500_000)))
    assert sink.kept == 1
    assert desk.send() == Resent()
    assert desk.send(outcomes=("poison",)).failed == {"MSG_SIZE_TOO_LARGE": 1}
    assert desk.open() == {"MSG_SIZE_TOO_LARGE": 1}
    chosen = Chosen(outcome="poison")
    shown = desk.ledger.discardable(desk.pipeline.name, chosen)
    assert shown.messages == 1
    with desk.ledger.hold(desk.pipeline.name) as held:
        held.discard(chosen, shown, "too large", "me")
    assert desk.open() == {}


def test_only_what_was_shown_is_discarded_and_nothing_once_another_message_has_failed(desk: Desk) -> None:
    desk.fail([Message(b"a"), Message(b"b")], *TIMED_OUT)
    shown = desk.ledger.discardable(desk.pipeline.name, Chosen())
    assert (shown.messages, [count.messages for count in shown.counts]) == (2, [2])
    desk.fail([Message(b"a second ago")], *TIMED_OUT)
    with (
        pytest.raises(ChangedMeanwhile, match="have changed since they were shown; nothing was discarded"),
        desk.ledger.hold(desk.pipeline.name) as held,
    ):
        held.discard(Chosen(), shown, "exported by hand", "me")
    assert desk.open() == {"_MSG_TIMED_OUT": 3}
    again = desk.ledger.discardable(desk.pipeline.name, Chosen())
    desk.send()  # by a second operator
    desk.fail([Message(b"c"), Message(b"d"), Message(b"e")], *TIMED_OUT)
    assert desk.ledger.discardable(desk.pipeline.name, Chosen()).messages == again.messages == 3
    assert desk.ledger.discardable(desk.pipeline.name, Chosen()).fingerprint != again.fingerprint


def test_a_transaction_that_is_given_up_is_kept_whole_and_one_that_is_sent_again_is_not(desk: Desk) -> None:
    sink = desk.sink()
    producer = desk.producer(sink, "transactional")
    with pytest.raises(RuntimeError):
        aborted(producer, [b"retried"])
    committed(producer, [b"retried"])
    assert (sink.kept, desk.open()) == (0, {})
    with pytest.raises(RuntimeError), producer:
        aborted(producer, [b"a", b"b"])
    assert sum(desk.open().values()) == sink.kept == 2
    assert desk.send() == Resent(sent=2)
    assert desk.values() == [b"a", b"b", b"retried"]


def test_a_transaction_that_is_tried_again_and_fails_sooner_is_kept_whole(desk: Desk) -> None:
    sink = desk.sink()
    producer = desk.producer(sink, "transactional")
    with pytest.raises(RuntimeError):
        aborted(producer, [b"a", b"b", b"b"])
    with pytest.raises(RuntimeError), producer:
        aborted(producer, [b"a", b"b"])
    assert sum(desk.open().values()) == sink.kept == 3
    assert desk.send() == Resent(sent=3)
    assert desk.values() == [b"a", b"b", b"b"]


def test_messages_of_an_aborted_transaction_are_kept_if_the_program_goes_on_with_others(desk: Desk) -> None:
    sink = desk.sink()
    producer = desk.producer(sink, "transactional")
    with pytest.raises(RuntimeError):
        aborted(producer, [b"again", b"lost", b"lost"], acknowledged=True)
    for values in ([b"other"], [b"again", b"lost"], [b"other"]):
        committed(producer, values)
    producer.flush()
    assert sum(desk.open().values()) == sink.kept == 1
    assert desk.send() == Resent(sent=1)
    assert desk.values() == [b"again", b"lost", b"lost", b"other", b"other"]


def test_aborted_messages_that_no_transaction_sends_again_do_not_pile_up_in_memory(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform_defs.producers.unsent.sink.AT_ONCE", 2)
    sink = desk.sink()
    producer = desk.producer(sink, "transactional")
    for _ in range(3):
        with pytest.raises(RuntimeError):
            aborted(producer, [b"lost", b"lost"], acknowledged=True)
        committed(producer, [b"other"])
    sink.keep()  # as each poll does
    assert sum(desk.open().values()) == 6, "without a flush"


def committed(producer: Producer, values: list[bytes]) -> None:
    with producer.transaction():
        for value in values:
            producer.send(Message(value))


def aborted(producer: Producer, values: list[bytes], *, acknowledged: bool = False) -> None:
    with producer.transaction():
        for value in values:
            (producer.send_and_wait if acknowledged else producer.send)(Message(value))
        raise RuntimeError("the rows are wrong")


def test_an_error_that_ends_the_block_keeps_what_is_in_the_queue(desk: Desk) -> None:
    sink = desk.sink()
    producer = desk.producer(sink, linger_ms=60_000)
    with pytest.raises(KeyboardInterrupt):
        interrupted(producer, Message(b"queued"))
    assert desk.open() == {"_PURGE_QUEUE": 1}
    assert desk.send() == Resent(sent=1)


def send_all(producer: Producer, messages: Sequence[Message]) -> None:
    with producer:
        for message in messages:
            producer.send(message)


def interrupted(producer: Producer, message: Message) -> None:
    with producer:
        producer.send(message)
        raise KeyboardInterrupt


def test_while_postgres_is_away_messages_wait_in_a_file_and_are_taken_in_once(desk: Desk) -> None:
    away = UnsentLedger("postgresql://nobody@127.0.0.1:1/nowhere")
    sink = desk.sink(away)
    with pytest.raises(NotDelivered), desk.producer(sink) as producer:
        producer.send(Message(bytes(1_500_000)))
    assert (sink.kept, sink.in_files, len(desk.files.waiting())) == (1, 1, 1)
    assert "unsent send" in kept_where(sink)
    assert "Postgres did not accept them" in kept_where(sink)
    assert desk.files.take_in(desk.ledger.keep) == 1
    assert desk.open() == {"MSG_SIZE_TOO_LARGE": 1}
    assert desk.files.waiting() == []


def test_without_an_id_an_unknown_message_is_refused_unless_it_may_be_doubled(desk: Desk) -> None:
    desk.fail([Message(b"blind")], *TIMED_OUT, ids=False)
    desk.fail([Message(b"known not to be there")], 19, "NOT_ENOUGH_REPLICAS", ids=False)
    done = desk.send()
    assert (done.sent, {why.code: number for why, number in done.refused.items()}) == (1, {"no_id": 1})
    assert desk.send(may_double=True) == Resent(sent=1)
    assert all(ID in dict(message.headers()) for _, message in desk.log())


def test_what_retention_has_passed_is_refused(desk: Desk) -> None:
    desk.fail([Message(b"a")], *TIMED_OUT)
    desk.world.send(desk.pipeline, [b"1", b"2"], partition=1)
    admin = desk.world.admin()
    place = TopicPartition(desk.topic, 1, 1)
    admin.delete_records([place])[place].result(10)
    done = desk.send()
    assert {why.code: number for why, number in done.refused.items()} == {"retention_passed": 1}
    assert not done.is_complete
    assert desk.send(may_double=True) == Resent(sent=1)


def test_an_old_message_does_not_overwrite_a_newer_one_that_retention_has_deleted(desk: Desk) -> None:
    desk.fail([Message(b"old", b"k"), Message(b"without a key")], *TIMED_OUT)
    desk.world.send(desk.pipeline, [b"new"], keys=[b"k"], partition=1)
    admin = desk.world.admin()
    place = TopicPartition(desk.topic, 1, 1)
    admin.delete_records([place])[place].result(10)
    done = desk.send(of_state=True, may_double=True)
    assert (done.sent, {why.code: number for why, number in done.refused.items()}) == (1, {"newer_gone": 1})
    assert desk.send(of_state=True, may_double=True, may_overwrite=True) == Resent(sent=1)


def test_an_old_message_does_not_overwrite_a_newer_one_of_its_key(desk: Desk) -> None:
    desk.fail([Message(b"old", b"k", timestamp_ms=1_700_000_000_000), Message(b"other", b"o")], *TIMED_OUT)
    desk.world.send(desk.pipeline, [b"new"], keys=[b"k"], partition=0)
    done = desk.send(of_state=True)
    assert (done.sent, {why.code: number for why, number in done.refused.items()}) == (1, {"newer_in_log": 1})
    assert desk.send(of_state=True, may_overwrite=True) == Resent(sent=1)


def test_a_message_older_than_the_tombstones_of_a_compacted_topic_does_not_bring_a_deleted_key_back(
    world: World, tmp_path: Path
) -> None:
    pipeline = world.new_pipeline("upsert", config={"cleanup.policy": "compact", "delete.retention.ms": "1"})
    desk = Desk(world, pipeline, tmp_path / "unsent")
    desk.fail([Message(b"old", b"k")], *TIMED_OUT)
    done = desk.send(of_state=True)
    assert (done.sent, {why.code: number for why, number in done.refused.items()}) == (0, {"tombstone_gone": 1})
    assert not done.is_complete
    assert desk.send(of_state=True, may_overwrite=True) == Resent(sent=1)


def test_what_is_newer_is_decided_by_offsets_and_ids_and_not_by_the_clocks_of_machines(desk: Desk) -> None:
    """The clock of the machine that wrote the newer message is an hour slow; the clock of this producer's earlier
    message was fast.
    """
    late, early = 1_700_000_000_000, 1_800_000_000_000
    sink, ids = desk.sink(), Ids()
    for key in (b"elsewhere", b"here", b"before"):
        if key == b"before":
            desk.world.send(desk.pipeline, [b"read long ago"], keys=[key], partition=0)
            sink = desk.sink()  # its ends are behind that
        earlier = sink.attempt(Message(b"earlier", key, timestamp_ms=early), ids.new())
        lost = sink.attempt(Message(b"lost", key, timestamp_ms=late + 1), ids.new())
        if key == b"here":
            desk.world.send(desk.pipeline, [b"earlier"], keys=[key], partition=0, headers=list(earlier.headers))
        if key == b"elsewhere":
            other = Other(desk.options)
            other.produce(desk.topic, b"newer", key=key, timestamp=late, partition=0, headers=[(ID, Ids().new())])
            assert other.flush(30) == 0
        sink.failed(lost, NotDelivered("", code=-192, reason="_MSG_TIMED_OUT"), None)
        sink.keep(all_of_it=True)
    done = desk.send(of_state=True)
    assert (done.sent, {why.code: number for why, number in done.refused.items()}) == (2, {"newer_in_log": 1})
    assert [message.key() for _, message in desk.log() if message.value() == b"lost"] == [b"here", b"before"]


def test_a_message_that_was_found_keeps_an_older_one_of_its_key_from_overwriting_it(desk: Desk) -> None:
    sink = desk.sink()
    older, newer = (Message(value, b"k", timestamp_ms=time) for value, time in ((b"old", 1_000), (b"new", 2_000)))
    lost, written = sink.attempt(older, b"the-older"), sink.attempt(newer, b"the-newer")
    with desk.producer(sink, ids=False) as producer:
        producer.send(newer._replace(headers=written.headers))
    for attempt in (lost, written):
        sink.failed(attempt, NotDelivered("", code=-192, reason="_MSG_TIMED_OUT"), None)
    sink.keep(all_of_it=True)
    done = desk.send(of_state=True)
    assert (done.found, done.sent, [why.code for why in done.refused]) == (1, 0, ["newer_in_log"])
    assert desk.values() == [b"new"]


def test_what_brokers_refuse_for_the_size_of_its_batch_is_sent_alone(desk: Desk) -> None:
    small = ConfigResource(
        "TOPIC",
        desk.topic,
        incremental_configs=[ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)],
    )
    admin = desk.world.admin()
    admin.incremental_alter_configs([small])[small].result(10)
    sink = desk.sink()
    given = {"linger.ms": 1_000, "compression.type": "none"}
    producer = Producer(desk.options, desk.topic, choose("asynchronous", given=given), unsent=sink)
    with pytest.raises(NotDelivered, match="MSG_SIZE_TOO_LARGE"):
        send_all(
            producer,
            [*(Message(bytes([letter]) * 900, partition=0) for letter in b"abcd"), Message(bytes(3_000), partition=0)],
        )
    assert desk.open() == {"MSG_SIZE_TOO_LARGE": 5}
    done = desk.send({"compression.type": "none"})
    assert (done.sent, done.failed) == (4, {"MSG_SIZE_TOO_LARGE": 1})
    assert [message.value()[:1] for _, message in desk.log()] == [b"a", b"b", b"c", b"d"]
    assert desk.send() == Resent()


def test_a_partition_that_is_gone_does_not_hold_back_the_rest(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform_defs.producers.unsent.resend.AT_ONCE", 1)
    desk.fail([Message(b"gone", partition=9), Message(b"there")], 19, "NOT_ENOUGH_REPLICAS")
    done = desk.send()
    assert (done.sent, done.failed, done.stopped) == (1, {"_UNKNOWN_PARTITION": 1}, False)


def test_what_failed_while_postgres_was_away_is_sent_before_what_failed_later(desk: Desk) -> None:
    sink = desk.sink(UnsentLedger("postgresql://nobody@127.0.0.1:1/nowhere"))

    def fail(value: bytes) -> None:
        sink.failed(sink.attempt(Message(value, partition=0), b"id of " + value), NotDelivered("", reason="x"), 0)
        sink.keep(all_of_it=True)

    fail(b"first")
    sink.ledger, sink._away_until = desk.ledger, 0.0  # pyright: ignore[reportPrivateUsage]
    fail(b"second")
    assert (sink.kept, sink.in_files, desk.files.waiting()) == (2, 0, [])
    assert desk.send() == Resent(sent=2)
    assert [message.value() for _, message in desk.log()] == [b"first", b"second"]
