"""Looks at Kafka: every address, then the topics of the pipelines, then reading and writing for a trial."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from platform_defs.contract.model import Contract
from platform_defs.doctor import cluster, topics, trials
from platform_defs.doctor.addresses import Address, Seen, parsed
from platform_defs.doctor.cluster import Looks
from platform_defs.doctor.findings import Finding, Severity, error, warning
from platform_defs.doctor.topics import TopicLook, TopicTrouble
from platform_defs.doctor.trials import Place
from platform_defs.errors import BadInput
from resources.kafka.addresses import Visitor
from resources.kafka.encryption import unread

PORT = 9092  # librdkafka's, where an address has none
QUIET = {"log_level": "0"}  # what librdkafka would print of its connections is in the findings


@dataclass(frozen=True)
class KafkaExamination:
    """`options` are librdkafka's, with `bootstrap.servers`, which `source` names."""

    source: str
    options: Mapping[str, str]
    contracts: Sequence[Contract]
    write: str | None
    seconds: float

    def findings(self) -> list[Finding]:
        """Raises BadInput: an address that is none, a certificate that cannot be read, a topic not to be written to."""
        self._refuse_to_write_to_a_pipelines_topic()
        looks = self.addresses()
        found = [*_unread(self.options), *cluster.findings(looks)]
        reached = cluster.reached(looks)
        if not reached:
            return [*found, self._no_broker(found)]
        topic_looks = self._topics()
        found += [finding for look in topic_looks for finding in topics.findings(look)]
        places = [place for place in trials.places_to_read(topic_looks) if place.leader in reached]
        return [*found, *self._reading(places), self._writing()]

    def addresses(self) -> Looks:
        """Every bootstrap address, and every one that brokers tell clients of; each once, all at the same time."""
        visitor = Visitor(self.options, self.seconds)
        bootstrap = _look(visitor, _addresses(self.options["bootstrap.servers"], self.source))
        wanted = {broker.address for broker, _ in cluster.told(bootstrap.values())}
        return Looks(
            self.source,
            visitor.protocol,
            tuple(bootstrap.values()),
            {**bootstrap, **_look(visitor, wanted - bootstrap.keys())},
        )

    def _topics(self) -> list[TopicLook]:
        from resources.kafka.topic_states import topic_states

        readers = dict[str, list[str]]()
        for contract in self.contracts:
            readers.setdefault(contract.topic, []).append(contract.pipeline)
        states = topic_states({**self.options, **QUIET}, list(readers), self.seconds)
        return [TopicLook(topic, names, states[topic]) for topic, names in readers.items()]

    def _reading(self, places: Sequence[Place]) -> Iterable[Finding]:
        from resources.kafka.trial import Trial

        return trials.reading(Trial({**self.options, **QUIET}, self.seconds).read(places) if places else {})

    def _writing(self) -> Finding:
        if self.write is None:
            return trials.not_written()
        from resources.kafka.topic_states import topic_states
        from resources.kafka.trial import Trial

        options = {**self.options, **QUIET}
        state = topic_states(options, [self.write], self.seconds)[self.write]
        if isinstance(state, TopicTrouble):
            return trials.writing(
                trials.Written(self.write, problem=f"{state.kind.replace('_', ' ')} {state.said}"), None
            )
        trial = Trial(options, self.seconds)
        written = trial.write(self.write)
        if written.problem is not None or written.partition is None:
            return trials.writing(written, None)
        (problem,) = trial.read([Place(written.topic, written.partition, offset=written.offset)]).values()
        return trials.writing(written, problem)

    def _refuse_to_write_to_a_pipelines_topic(self) -> None:
        readers = [contract.pipeline for contract in self.contracts if contract.topic == self.write]
        if readers:
            raise BadInput(
                f"{self.write} is the topic of the pipeline {readers[0]}, which would read the doctor's message. "
                "Name a topic that no pipeline reads",
                field="--write",
            )

    def _no_broker(self, found: Sequence[Finding]) -> Finding:
        rate = error if any(one.severity is Severity.ERROR for one in found) else warning
        return rate(
            "topics",
            "topics",
            "Topics, reading and writing were not tried: no broker is reached where clients are told to come to.",
            "Settle the findings about addresses first.",
        )


def _look(visitor: Visitor, addresses: Iterable[Address]) -> dict[Address, Seen]:
    wanted = list(dict.fromkeys(addresses))
    if not wanted:
        return {}
    with ThreadPoolExecutor(len(wanted)) as pool:
        return dict(zip(wanted, pool.map(visitor.look, wanted), strict=True))


def _addresses(servers: str, source: str) -> list[Address]:
    return [_address(one, source) for one in servers.split(",") if one.strip()]


def _address(text: str, source: str) -> Address:
    if (found := parsed(text, PORT)) is None:
        raise BadInput(f"{text.strip()} is not an address like kafka-1.example.com:9092", field=source)
    return found


def _unread(options: Mapping[str, str]) -> list[Finding]:
    names = unread(options)
    if not names:
        return []
    return [
        warning(
            "kafka",
            "tls",
            f"The doctor's look at addresses does without {', '.join(names)}, which only librdkafka reads.",
            "To have it looked at with them, give the certificates as files: TIDEGATE_KAFKA_SSL_CERTIFICATE_LOCATION, "
            "_SSL_KEY_LOCATION and _SSL_CA_LOCATION.",
        )
    ]
