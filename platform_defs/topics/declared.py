"""A topic's declaration, merged from every contract that reads it or from topics.yaml, with the place of each key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.topic import KeyOrder, TopicKeys
from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.contract.reader.topics_file import ListedTopic
from platform_defs.errors import BadInput
from platform_defs.ledger.answers import Reader
from platform_defs.producer_options.partitioners import OF_TOPICS_THAT_EXIST
from platform_defs.topics.steps import Create
from platform_defs.topics.violations import Place, Violation


@dataclass(frozen=True)
class Declared:
    """A topic as it should be; None if a key is not declared."""

    topic: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    key_order: KeyOrder = "none"
    readers: tuple[Reader, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])  # of each key; "" is that of the topic

    def place(self, *keys: str) -> Place | None:
        """Return the place of the first of `keys` that is declared; else the topic's place."""
        return next((self.places[key] for key in keys if key in self.places), self.places.get(""))

    def read_by(self, disposition: Literal["append", "upsert"]) -> list[str]:
        """Return the pipelines that append a row for each message, or that keep the latest one of each key."""
        return [reader.pipeline for reader in self.readers if reader.disposition == disposition]


@dataclass(frozen=True)
class Declarations:
    """Every declared topic by name, and the contradictory declarations."""

    topics: Mapping[str, Declared]
    undeclared: Mapping[str, Declared]  # read by a contract that declares no key of the topic
    refused: tuple[Violation, ...]


@dataclass(frozen=True)
class _Source:
    """One file's declaration of a topic."""

    topic: str
    keys: TopicKeys
    file: str
    line: int | None = None
    reader: Reader | None = None

    def place(self, key: str) -> Place:
        return Place(self.file, self.keys.lines.get(key, self.line), f"{self.topic}.{key}" if key else self.topic)

    def values(self) -> dict[str, int | str | None]:
        """Return the declared values by key; config's entries as config.retention.ms."""
        counts = {"partitions": self.keys.partitions, "replicationFactor": self.keys.replication_factor}
        given = {**counts, "keyOrder": self.keys.key_order}
        written = {key: value for key, value in given.items() if value is not None}
        return {**written, **{f"config.{name}": value for name, value in self.keys.config.items()}}


def declarations(contracts: Iterable[Contract], listed: Iterable[ListedTopic], file: str) -> Declarations:
    """Return the declarations of the contracts and `file` (topics.yaml), merged by topic."""
    sources: dict[str, list[_Source]] = {}
    for source in (*map(_of_contract, contracts), *(_Source(one.name, one.keys, file, one.line) for one in listed)):
        sources.setdefault(source.topic, []).append(source)
    refused = [violation for found in sources.values() for violation in _contradictions(found)]
    merged = {topic: _merged(topic, found) for topic, found in sources.items()}
    kept = {topic for topic, found in sources.items() if any(one.keys.declared or one.reader is None for one in found)}
    return Declarations(
        {topic: one for topic, one in merged.items() if topic in kept},
        {topic: one for topic, one in merged.items() if topic not in kept},
        tuple(refused),
    )


def _of_contract(contract: Contract) -> _Source:
    disposition = "upsert" if contract.row_table.disposition == "upsert" else "append"
    partitioner = str(contract.producing.options.get("partitioner", OF_TOPICS_THAT_EXIST))
    reader = Reader(contract.pipeline, disposition, contract.limits.lag_seconds, partitioner)
    return _Source(contract.topic, contract.topic_keys, str(contract.path or contract.pipeline), reader=reader)


def _merged(topic: str, sources: list[_Source]) -> Declared:
    """Merge the sources: the first value of each key wins; key order is strict if any source needs it."""
    values, places = dict[str, int | str | None](), {"": sources[0].place("")}
    for source in sources:
        for key, value in source.values().items():
            values.setdefault(key, value)
            places.setdefault(key, source.place(key))
    partitions, factor = values.get("partitions"), values.get("replicationFactor")
    orders = {
        one.keys.key_order or ("strict" if one.reader and one.reader.disposition == "upsert" else "none")
        for one in sources
    }
    config = {key.removeprefix("config."): value for key, value in values.items() if key.startswith("config.")}
    return Declared(
        topic,
        partitions=partitions if isinstance(partitions, int) else None,
        replication_factor=factor if isinstance(factor, int) else None,
        config={key: None if value is None else str(value) for key, value in config.items()},
        key_order="strict" if "strict" in orders else "none",
        readers=tuple(source.reader for source in sources if source.reader),
        places=places,
    )


def _contradictions(sources: list[_Source]) -> list[Violation]:
    """Return a violation for each key with two values, and for a topic of topics.yaml that a contract declares too."""
    first, found = dict[str, _Source](), list[Violation]()
    for source in sources:
        for key, value in source.values().items():
            other = first.setdefault(key, source)
            if (before := other.values()[key]) != value:
                found.append(_refused(source, key, f"{key} is {value} here and {before} in {other.place(key)}"))
    listed = [source for source in sources if source.reader is None]
    if listed and len(sources) > 1:
        wrong = f"{sources[0].topic} is the topic of {sources[0].file}: declare it there, and remove it here"
        found.append(_refused(listed[0], "", wrong))
    return found


def _refused(source: _Source, key: str, message: str) -> Violation:
    message = f"{message}; use the same value in both" if key else message
    return Violation("refuse", "declared_once", source.topic, message, source.place(key))


def created(declared: Declared) -> Create:
    """Return the step that creates the topic: as declared, else with the cluster's defaults. It is compacted if only
    upserts read it and no cleanup.policy is declared.
    """
    compacted = {"cleanup.policy": "compact"} if declared.readers and not declared.read_by("append") else {}
    config = {name: value for name, value in {**compacted, **declared.config}.items() if value is not None}
    return Create(declared.topic, declared.partitions, declared.replication_factor, config)


def first_made(topic: str, contracts: Contracts, partitions: int) -> Create:
    """Return the step by which `tidegate produce` creates a missing topic: as the contracts that read it declare, else
    with `partitions` partitions. Raises BadInput if they contradict each other, or if one that may read it is broken.
    """
    for error in (item.error for item in contracts.broken if item.may_read(topic)):
        why = f"{error.problem}. Topic {topic} was not created, since this contract may read it. Correct it first"
        raise BadInput(why, file=error.file, line=error.line, field=error.field)
    sources = [_of_contract(one) for one in contracts.good if one.topic == topic]
    for violation in _contradictions(sources):
        place = violation.place or Place("")
        raise BadInput(violation.message, file=place.file, line=place.line, field=place.field)
    step = created(_merged(topic, sources))
    return replace(step, partitions=step.partitions or partitions)
