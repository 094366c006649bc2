"""Topics that Dagster writes: an asset whose messages become one Kafka transaction."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from confluent_kafka import KafkaException, TopicPartition
from dagster._core.storage.tags import ROOT_RUN_ID_TAG
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from platform_defs.contract.model.contract import Contract
from platform_defs.errors import (
    BadInput,
    BrokerAway,
    ProducerBroken,
    ProducerFenced,
    Retryable,
    TidegateError,
    TransactionAborted,
)
from platform_defs.errors.words import plural
from platform_defs.groups.own_groups import record_group
from platform_defs.kafka.client.connection_log import NO_LOG
from platform_defs.kafka.client.reader import Reader
from platform_defs.kafka.client.refusals import refusal, refusing
from platform_defs.kafka.client.rights import Right
from platform_defs.producers.dagster_resource import KafkaProducerResource
from platform_defs.producers.message import Delivered, Message
from platform_defs.producers.producer import Producer
from platform_defs.stack.endpoints import connection
from platform_defs.topics.dagster.assets import Topic, topic_spec

Messages = Callable[[dg.AssetExecutionContext], Iterable[Message]]
TRANSACTIONAL = "transactional"
ANSWER = 30.0  # seconds that Kafka may take to return a note
RUNS = 50  # named in a note: a note has 4,096 bytes at most (offset.metadata.max.bytes of a broker), a run up to 70


def topic_asset(
    contract: Contract,
    *,
    partitions_def: dg.PartitionsDefinition[Any] | None = None,
    deps: Sequence[dg.AssetKey | dg.AssetSpec | dg.AssetsDefinition] = (),
) -> Callable[[Messages], dg.AssetsDefinition]:
    """Decorate a function of messages: return the asset of the contract's topic. Pass it to
    `tidegate.definitions(include=[...])`.

    All messages of a materialization become one transaction with a note of the run and the asset's partition: readers
    of committed messages see all of them or none, and a run that is retried (also by "Re-execute") writes nothing
    twice, for a week and the next 49 runs of the partition. Materializing it in a new run writes again. If two runs
    write one partition at once, the later one goes on, the other fails (ProducerFenced).

    A transaction may take `transaction.timeout.ms` (60 s; the contract's producerOptions may raise it, up to the
    brokers' transaction.max.timeout.ms).
    """
    if not isinstance(contract, Contract):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's argument
        raise BadInput("pass a contract: tidegate.topic_asset(tidegate.find_contract(name))", field="contract")

    def decorate(messages: Messages) -> dg.AssetsDefinition:
        spec: Any = topic_spec(Topic(contract.topic, (contract,)))  # Any: its methods are typed in part

        @dg.multi_asset(
            name=f"write_{contract.pipeline}",
            specs=[spec.replace_attributes(deps=[*deps], partitions_def=partitions_def)],
            description=messages.__doc__ or f"Writes {contract.topic} in one Kafka transaction.",
        )
        def write(
            context: dg.AssetExecutionContext, tidegate_kafka_producer: KafkaProducerResource
        ) -> dg.MaterializeResult[Any]:
            try:
                metadata = _write(context, contract, messages, tidegate_kafka_producer)
            except TidegateError as error:
                raise dg.Failure(str(error), allow_retries=may_be_retried(error)) from error
            return dg.MaterializeResult(
                asset_key=context.asset_key, metadata=metadata
            )  # with the prefix of the definitions

        return write

    return decorate


def keys_written(written: Iterable[dg.AssetsDefinition]) -> set[dg.AssetKey]:
    """Return the topics that these assets write. Raises BadInput if two write the same one."""
    writers = dict[dg.AssetKey, str]()
    for item in written:
        for key in item.keys:
            if (other := writers.setdefault(key, item.node_def.name)) != item.node_def.name:
                raise BadInput(
                    f"{other} and {item.node_def.name} both write topic {key.path[-1]}; pass only one of them to "
                    "definitions(include=...) (a topic is one asset, whichever contract writes to it)",
                    field=key.path[-1],
                )
    return {*writers}


def _write(
    context: dg.AssetExecutionContext, contract: Contract, messages: Messages, resource: KafkaProducerResource
) -> Mapping[str, Any]:
    """Write the messages. The order is the guarantee: the transaction begins, so that an earlier try can commit no
    more; then its note is read; then the messages are sent, and noted.
    """
    endpoints, name = connection(), _name(context, contract)
    chosen = contract.producing.chosen(TRANSACTIONAL, endpoints.librdkafka)
    ranges = dict[int, tuple[int, int]]()  # first and last offset by partition; others' messages may be in between

    def delivered(_: Message, report: Delivered | TidegateError) -> None:
        if isinstance(report, Delivered) and report.offset is not None:
            first, last = ranges.get(report.partition, (report.offset, report.offset))
            ranges[report.partition] = min(first, report.offset), max(last, report.offset)

    producer = resource.producer(contract.topic, name, chosen, delivered)
    marker = Marker(endpoints.kafka_options(), name, contract.topic)
    with producer.transaction():
        earlier = written_by(note := marker.read(), _root(context))
        if earlier is None:
            before = producer.sent
            for message in messages(context):
                producer.send(message)
            sent = producer.sent - before
            marker.write(producer, noted(note, _root(context), sent), sent)
    if earlier is not None:
        context.log.info(f"an earlier try of this run wrote its {plural(earlier, 'message')}, so nothing was sent")
        return {"preset": TRANSACTIONAL, "messages": earlier, "written": "by an earlier try of this run"}
    offsets = {f"offsets_{number}": f"{first} to {last}" for number, (first, last) in sorted(ranges.items())}
    return {"preset": TRANSACTIONAL, "messages": producer.counts.delivered, "written": "now", **offsets}


def written_by(note: str | None, run: str) -> int | None:
    """Return how many messages of `run` the note records; None if it does not name the run."""
    return _runs(note).get(run)


def noted(note: str | None, run: str, messages: int) -> str:
    """Return the note after a run has written: earlier runs stay, since one of them may be retried after this one."""
    runs = {**_runs(note), run: messages}
    return json.dumps({"runs": dict([*runs.items()][-RUNS:])}, separators=(",", ":"))


def _runs(note: str | None) -> dict[str, int]:
    """Return the runs that the note names, oldest first, with their messages."""
    return json.loads(note or '{"runs":{}}')["runs"]


def may_be_retried(error: TidegateError) -> bool:
    """Return True if another try of the run may end differently. Its note has the outcome of a transaction that ended
    unknown.
    """
    if isinstance(error, TransactionAborted):
        return error.outcome != "poison"
    return isinstance(error, Retryable | ProducerBroken) and not isinstance(error, ProducerFenced)


def _root(context: dg.AssetExecutionContext) -> str:
    """Return the run that this one retries, or itself."""
    return context.run.tags.get(ROOT_RUN_ID_TAG, context.run.run_id)


def _name(context: dg.AssetExecutionContext, contract: Contract) -> str:
    """Return the transactional.id, which is also the group of the note: one for each of the asset's partitions."""
    name = record_group(contract.pipeline)
    if not context.has_partition_key and not context.has_partition_key_range:
        return name
    keys = context.partition_key_range
    return f"{name}.{keys.start}" if keys.start == keys.end else f"{name}.{keys.start}...{keys.end}"


@dataclass(frozen=True)
class Marker:
    """A note of `group` about `topic` that Kafka keeps with a transaction: it exists only if the transaction was
    committed. `options` are librdkafka's, with `bootstrap.servers`.

    It is the committed offset of its own consumer group, which has no readers: `TxnOffsetCommit` puts it into the
    transaction of the messages, and no topic gets an extra record. Brokers forget it a week after it was written
    (offsets.retention.minutes).
    """

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    group: str
    topic: str

    def read(self) -> str | None:
        """Return the note of the last committed transaction. Raises BrokerAway, BadInput without the right."""
        retrying = Retrying(
            retry=retry_if_exception_type(BrokerAway),  # a coordinator that moves, or was just elected
            stop=stop_after_delay(ANSWER),
            wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
            reraise=True,
        )
        client = self._client()
        try:
            return retrying(self._read, client)
        finally:
            client.close()

    def write(self, producer: Producer, note: str, messages: int) -> None:
        """Write the note in the transaction of `producer`. `messages` is what tools show as the group's offset."""
        client = self._client()
        try:
            at = [TopicPartition(self.topic, 0, messages, note)]
            producer.note(at, self.group, client.consumer_group_metadata())
        finally:
            client.close()

    def _read(self, client: Any) -> str | None:
        try:
            (found,) = client.committed([TopicPartition(self.topic, 0)], timeout=ANSWER / 3)
        except KafkaException as error:
            # The reason arrives separately: for a hidden group, as a message's error.
            message = client.poll(0)
            reason = (message and message.error()) or client.connection_log.denied or error.args[0]
            needed = (Right("group", self.group, ("Read",)), Right("topic", self.topic, ("Read",)))
            away = (
                f"could not find out from Kafka at {self.options['bootstrap.servers']} whether this run has already "
                f"written to {self.topic}: {reason.str()}. Nothing was sent"
            )
            refused = refusal(reason, f"to read the offsets of group {self.group}", needed, self.options)
            raise refused or BrokerAway(away) from error
        return None if found.offset < 0 else found.metadata

    def _client(self) -> Any:
        """Return a consumer that never joins its group."""
        with refusing("a client for committed offsets", self.options):
            conf = {**NO_LOG, **self.options, "group.id": self.group, "enable.auto.commit": False}
            return Reader(conf)
