"""The checks of Kafka: every address, then the topics of the pipelines, then test reads and writes."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, ResourceType

from platform_defs.cluster.observe import Look
from platform_defs.contract.model.contract import Contract
from platform_defs.doctor.findings import cluster, topics, trials
from platform_defs.doctor.findings.addresses import Address, Seen, parsed
from platform_defs.doctor.findings.cluster import Looks
from platform_defs.doctor.findings.finding import Finding, Severity, Subject
from platform_defs.doctor.findings.postgres import clock
from platform_defs.doctor.findings.topics import RIGHTS, TopicLook, TopicState, TopicTrouble
from platform_defs.doctor.findings.trials import Place, Written
from platform_defs.doctor.probes.addresses import Visitor
from platform_defs.errors import BadInput, TidegateError
from platform_defs.errors.words import plural
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.refusals import refusing
from platform_defs.kafka.source import READING

PORT = 9092  # librdkafka's, if an address has none
NO_RIGHT = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


@dataclass(frozen=True)
class KafkaExamination:
    """The checks of one cluster. `options` are librdkafka's, with `bootstrap.servers`, which `source` names."""

    source: str
    options: Mapping[str, str] = field(repr=False)  # they may contain a password
    contracts: Sequence[Contract]
    write: str | None
    seconds: float

    def findings(self) -> list[Finding]:
        """Return all findings. Raises BadInput for an invalid address, an unreadable certificate, or a topic that must
        not be written to.
        """
        readers = [contract.pipeline for contract in self.contracts if contract.topic == self.write]
        if readers:
            raise BadInput(
                f"{self.write} is the topic of the pipeline {readers[0]}, which would read the doctor's message. "
                "Name a topic that no pipeline reads",
                field="--write",
            )
        looks = self.addresses()
        found = cluster.findings(looks)
        reached, untried = cluster.reached(looks), cluster.is_untried(looks)
        if not reached and not untried:
            return [*found, _no_broker(found)]
        options = dict(self.options)
        if reached:  # one that hangs would keep librdkafka waiting
            options["bootstrap.servers"] = ",".join(map(str, reached.values()))
        return [*found, *self._tried(options, None if untried else reached)]

    def _tried(self, options: Mapping[str, str], reached: Collection[int] | None) -> Iterator[Finding]:
        """Yield the findings of librdkafka's clients. `reached`: the brokers to read from; None for all."""
        looks = self._topics(options)
        yield from topics.findings(looks)
        yield from _throttled(options)
        places = [one for one in trials.places_to_read(looks) if reached is None or one.leader in reached]
        yield from trials.reading(Trial(options, self.seconds).read(places) if places else {})
        yield from self._writing(options)

    def addresses(self) -> Looks:
        """Check every bootstrap address, and every advertised one; each once, all concurrently."""
        visitor = Visitor(self.options, self.seconds)
        bootstrap = _look(visitor, _addresses(self.options["bootstrap.servers"], self.source))
        wanted = {broker.address for broker, _ in cluster.advertised_by(bootstrap.values())}
        return Looks(
            self.source,
            visitor.protocol,
            tuple(bootstrap.values()),
            {**bootstrap, **_look(visitor, wanted - bootstrap.keys())},
        )

    def _topics(self, options: Mapping[str, str]) -> list[TopicLook]:
        readers = dict[str, list[str]]()
        for contract in self.contracts:
            readers.setdefault(contract.topic, []).append(contract.pipeline)
        states = topic_states(options, list(readers), self.seconds)
        return [TopicLook(topic, names, states[topic]) for topic, names in readers.items()]

    def _writing(self, options: Mapping[str, str]) -> Iterator[Finding]:
        if self.write is None:
            yield trials.not_written()
            return
        state = topic_states(options, [self.write], self.seconds)[self.write]
        if isinstance(state, TopicTrouble):
            written = Written(self.write, problem=f"{state.kind.replace('_', ' ')} {state.error}".strip())
        else:
            written = Trial(options, self.seconds).write(self.write)
        problem = None
        if written.problem is None and written.partition is not None:
            place = Place(written.topic, written.partition, offset=written.offset)
            problem = Trial(options, self.seconds).read([place])[place]
        yield trials.writing(written, problem)
        if written.behind is not None:
            yield clock(written.behind, f"that of the broker that leads {written.topic}")


def _throttled(options: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a warning about throttles left by a reassignment; none if the user lacks the rights to know."""
    with suppress(TidegateError):
        seen = Look(options).observe()
        if seen.throttled and not seen.moving and not seen.unknown and seen.quorum is not None:
            yield Subject("topics", seen.throttled[0]).warning(
                "No replica is being moved, but replication is throttled for "
                f"{plural(len(seen.throttled), 'topic')}, such as {seen.throttled[0]}: a past reassignment left "
                "limits that slow replication down permanently.",
                "tidegate cluster reassign status --adopt",
            )


def _no_broker(found: Sequence[Finding]) -> Finding:
    subject = Subject("topics", "topics")
    rate = subject.error if any(one.severity is Severity.ERROR for one in found) else subject.warning
    return rate(
        "Topics, reading and writing were not checked: no broker can be reached at its advertised address.",
        "Fix the findings about addresses first.",
    )


def _look(visitor: Visitor, addresses: Iterable[Address]) -> dict[Address, Seen]:
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(len(wanted)) as pool:
        return dict(zip(wanted, pool.map(visitor.look, wanted), strict=True))


def _addresses(servers: str, source: str) -> list[Address]:
    found = list[Address]()
    for text in filter(str.strip, servers.split(",")):
        if (address := parsed(text, PORT)) is None:
            raise BadInput(f"{text.strip()} is not an address like kafka-1.example.com:9092", field=source)
        found.append(address)
    return found


def topic_states(
    options: Mapping[str, str], topics: Sequence[str], seconds: float
) -> dict[str, TopicState | TopicTrouble]:
    """Return each topic's state, or why there is none. Two queries for all of them, at most `seconds` each."""
    if not topics:
        return {}
    admin = admin_client(options)
    described = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=seconds
    )
    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    configured = admin.describe_configs(asked, request_timeout=seconds)
    least = {resource.name: _min_in_sync(future, seconds) for resource, future in configured.items()}
    return {topic: _state(future, least[topic], seconds) for topic, future in described.items()}


def _state(future: "Future[Any]", least: int | None, seconds: float) -> TopicState | TopicTrouble:
    try:
        found = future.result(timeout=seconds + 1)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return TopicTrouble("missing")
        kind = "no_right" if reason.code() in NO_RIGHT else "no_answer"
        return TopicTrouble(kind, f"{reason.str()} ({reason.name()})")
    except TimeoutError:
        return TopicTrouble("no_answer", f"no answer within {seconds:g} s")
    allowed = {operation.name.lower() for operation in found.authorized_operations or ()}
    # A broker without an authorizer allows all; librdkafka returns None if it was not reported.
    missing = [name for right, name in RIGHTS.items() if allowed and right not in allowed]
    return TopicState(
        {one.id: None if one.leader is None or one.leader.id < 0 else one.leader.id for one in found.partitions},
        {one.id: [node.id for node in one.replicas] for one in found.partitions},
        {one.id: [node.id for node in one.isr] for one in found.partitions},
        least,
        missing,
    )


def _min_in_sync(future: "Future[Any]", seconds: float) -> int | None:
    try:
        return int(future.result(timeout=seconds + 1)["min.insync.replicas"].value)
    except (KafkaException, TimeoutError, KeyError, TypeError, ValueError):  # Kafka's API without Kafka's settings
        return None


@dataclass(frozen=True)
class Trial:
    """Trials of a client. `options` are librdkafka's, with `bootstrap.servers`; each trial takes at most `seconds`."""

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    seconds: float = 3.0

    def read(self, places: Iterable[Place]) -> dict[Place, str | None]:
        """Fetch from the end of each place, or from its offset. Return None if its leader answered the fetch, with a
        message or with the end of the partition; else why not. No offset is committed and no group joined.
        """
        left = {(place.topic, place.partition): place for place in places}
        answers = dict[Place, str | None]()
        with refusing("a consumer"):
            consumer = Consumer({**self.options, **READING})
        try:
            starts = ((at.topic, at.partition, OFFSET_END if at.offset is None else at.offset) for at in left.values())
            consumer.assign([TopicPartition(*start) for start in starts])
            deadline = time.monotonic() + self.seconds
            while left and (wait := deadline - time.monotonic()) > 0:
                if (found := consumer.poll(wait)) is None:
                    continue
                partition: int | None = found.partition()
                if (place := left.pop((found.topic() or "", -1 if partition is None else partition), None)) is not None:
                    answers[place] = _refusal(found.error())
        finally:
            consumer.close()
        return answers | dict.fromkeys(left.values(), f"no answer within {self.seconds:g} s")

    def write(self, topic: str) -> Written:
        """Write one message to `topic`, which exists: a producer would create a missing one."""
        written = list[Written]()
        own: dict[str, Any] = {"acks": "all", "enable.idempotence": True, "linger.ms": 0}
        own["message.timeout.ms"] = round(self.seconds * 1000)
        with refusing("a producer"):
            producer = Producer({**self.options, **own})

        def note(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                written.append(Written(message.topic(), problem=_refusal(error)))
                return
            kind, stamp = message.timestamp()
            behind = stamp / 1000 - time.time() if kind == TIMESTAMP_LOG_APPEND_TIME else None
            written.append(Written(message.topic(), message.partition(), message.offset(), behind=behind))

        producer.produce(topic, b"written by tidegate doctor", on_delivery=note)
        producer.flush(self.seconds + 1)
        return written[0] if written else Written(topic, problem=f"no answer within {self.seconds:g} s")


def _refusal(error: KafkaError | None) -> str | None:
    if error is None or error.name() == "_PARTITION_EOF":
        return None
    return f"{error.str()} ({error.name()})"
