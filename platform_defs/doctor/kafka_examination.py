"""The checks of Kafka: every address, then the topics of the pipelines, then test reads and writes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from platform_defs.cluster.observe import Look
from platform_defs.contract.model.contract import Contract
from platform_defs.doctor.findings import cluster, topics, trials
from platform_defs.doctor.findings.addresses import Address, Seen, parsed
from platform_defs.doctor.findings.cluster import Looks
from platform_defs.doctor.findings.finding import Finding, Severity, Subject
from platform_defs.doctor.findings.postgres import clock
from platform_defs.doctor.findings.topics import TopicLook, TopicTrouble
from platform_defs.doctor.findings.trials import Place, Written
from platform_defs.doctor.probes.addresses import Visitor
from platform_defs.doctor.probes.topic_states import topic_states
from platform_defs.doctor.probes.trial import Trial
from platform_defs.errors import BadInput, TidegateError
from platform_defs.errors.words import plural

PORT = 9092  # librdkafka's, if an address has none


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
