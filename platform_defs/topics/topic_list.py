"""Single topics: listed with their declarations, imported as a declaration, deleted."""

import os
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from platform_defs.cluster.observe import Look
from platform_defs.contract.document.yaml_text import yaml_scalar
from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.contract.reader.topics_file import NAME, read_topics_file
from platform_defs.errors import BadInput, TidegateError, TopicMissing
from platform_defs.errors.words import plural
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.topics.apply import Topics
from platform_defs.topics.declared import Declared
from platform_defs.topics.evidence import Witness
from platform_defs.topics.evidence_rules import Unread, same_cluster
from platform_defs.topics.observed import Observed, ObservedTopic
from platform_defs.topics.plan import plan_of

MAX_NAMED = 10  # pipelines in one sentence
State = Literal["as_declared", "differs", "missing", "not_declared", "hidden"]


@dataclass(frozen=True)
class ListedTopic:
    """A topic, as observed and as declared."""

    topic: str
    topic_id: str | None
    state: State
    file: str | None
    line: int | None
    pipelines: tuple[str, ...] = ()
    partitions: int | None = None
    replication_factor: int | None = None
    config: dict[str, str] = field(default_factory=dict[str, str])
    changes: tuple[str, ...] = ()
    problem: str | None = None
    size: int | None = None  # bytes of all its replicas

    @property
    def where(self) -> str | None:
        """The file's path within the contracts' folder: bank/transfers.odcs.yaml."""
        return "/".join(Path(self.file).parts[-1 if self.file.endswith(NAME) else -2 :]) if self.file else None


@dataclass(frozen=True)
class TopicList:
    """Every topic, declared ones first."""

    cluster_id: str
    topics: tuple[ListedTopic, ...]
    sizes_unknown: str | None = None  # why no size is known


@dataclass(frozen=True)
class Imported:
    """A topic as YAML, and the file for it."""

    topic: str
    pipelines: tuple[str, ...]
    file: str
    yaml: str
    written: bool = False


@dataclass(frozen=True)
class Deletion:
    """A topic to be deleted: its offsets, and the pipelines that have not read all of it."""

    topic: str
    cluster_id: str
    topic_id: str
    offsets: tuple[tuple[int, int, int], ...]  # of each partition: its number, first offset and end
    unread: tuple[Unread, ...]
    unknown: str  # why the ledger cannot name the topic's readers; empty if it can

    @property
    def messages(self) -> int:
        """The number of offsets in the topic."""
        return sum(end - first for _, first, end in self.offsets)

    @property
    def objections(self) -> tuple[str, ...]:
        """The reasons against deletion, which a user must confirm: a clause each."""
        unread = [f"{one.pipeline} has {plural(one.messages, 'message')} left to read from it" for one in self.unread]
        left = len(unread) - MAX_NAMED
        more = (f"{left} more {'has' if left == 1 else 'have'} messages left to read",) if left > 0 else ()
        return (*((self.unknown,) if self.unknown else ()), *unread[:MAX_NAMED], *more)

    @property
    def fingerprint(self) -> str:
        """A hash of the deletion as shown, so that exactly that is deleted."""
        return fingerprint_of(asdict(self))


def list_topics(topics: Topics) -> TopicList:
    """Return every topic. Raises BadInput for a topics.yaml that cannot be read, and BrokerAway."""
    message = topics.declared()
    known = {**message.topics, **message.undeclared}
    names = sorted(name for name in topics.admin.names() if name not in known and not name.startswith("__"))
    observed, refused = topics.admin.observe_all([*known, *names])
    every = {**known, **{name: Declared(name) for name in names if name in observed.topics or name in refused}}
    bytes_of, why = Look(topics.admin.options).sizes(sorted(observed.brokers))
    sizes = Counter[str]()
    for (name, _, _), size in (bytes_of or {}).items():
        sizes[name] += size
    found = (_listed(one, observed, refused.get(name), declared=name in message.topics) for name, one in every.items())
    sized = (
        replace(one, size=sizes[one.topic]) if bytes_of is not None and one.topic_id is not None else one
        for one in found
    )
    return TopicList(observed.cluster_id, tuple(sized), why[0] if why else None)


def import_topic(topics: Topics, topic: str, *, write: bool) -> Imported:
    """Return the topic as a declaration. Raises TopicMissing, and BadInput if it cannot be added to topics.yaml."""
    message = topics.declared()
    there = topics.admin.observe([topic]).topics.get(topic)
    if there is None:
        raise TopicMissing.named(topic)
    known = {**message.undeclared, **message.topics}.get(topic)
    path = topics.folder / NAME
    if known is None:
        text = _entry(topic, there)
        if write:
            _add(path, text)
        return Imported(topic, (), str(path), f"topics:\n{text}", written=write)
    place, pipelines = known.place(), tuple(reader.pipeline for reader in known.readers)
    file = place.file if place else str(path)
    if write:
        raise BadInput(
            f"{topic} is already declared here; --write adds to {NAME} only topics that no file declares", file=file
        )
    return Imported(topic, pipelines, file, _properties(there) if pipelines else f"topics:\n{_entry(topic, there)}")


def propose_deletion(topics: Topics, topic: str) -> Deletion:
    """Return the proposed deletion of a topic. Changes nothing. Raises BadInput if a contract or topics.yaml declares
    the topic, or might, or the ledger is of another cluster; TopicMissing.
    """
    text = topics.declared()
    if refused := [violation for violation in text.refused if violation.rule == "contract"]:
        raise BadInput(f"cannot tell whether a contract reads {topic}: {refused[0].place}: {refused[0].message}")
    if (known := {**text.undeclared, **text.topics}.get(topic)) is not None:
        place = known.place()
        by = f"the contract of {known.readers[0].pipeline} reads it" if known.readers else "this file lists it"
        wrong = f"{topic} was not deleted: {by}. Remove it there first"
        raise BadInput(wrong, file=place and place.file, line=place and place.line)
    if topic.startswith("__"):
        raise BadInput(f"{topic} is an internal topic of Kafka", field=topic)
    observed = topics.admin.observe([topic])
    if topic not in observed.topics:
        raise TopicMissing.named(topic)
    evidence = Witness(topics.admin.options, topics.ledger).of_deletion(topic, observed)
    for violation in same_cluster(observed, evidence):
        raise BadInput(violation.message)
    unknown = ""
    if evidence.unknown:
        unknown = f"cannot tell whether pipelines have unread messages in it: {evidence.unknown}"
    elif evidence.first_cluster is None:
        unknown = f"the ledger does not know this cluster ({observed.cluster_id}), nor which pipelines read from it"
    view = KafkaBroker(topics.admin.options).describe(topic)
    return Deletion(
        topic=topic,
        cluster_id=view.cluster_id,
        topic_id=view.topic_id,
        offsets=tuple((number, held.low, held.written) for number, held in sorted(view.partitions.items())),
        unread=tuple(one for one in evidence.unread.get(topic, ()) if one.messages),
        unknown=unknown,
    )


def _listed(one: Declared, observed: Observed, hidden: TidegateError | None, *, declared: bool) -> ListedTopic:
    """Return the topic. `hidden`: why this user may not see it, or not its settings."""
    there, place = observed.topics.get(one.topic), one.place()
    pipelines = tuple(reader.pipeline for reader in one.readers)
    if hidden is not None:
        file, line = place and place.file, place and place.line
        return ListedTopic(one.topic, None, "hidden", file, line, pipelines, problem=str(hidden))
    planned = declared or there is None
    changes = tuple(step.sentence() for step in plan_of([one], observed).steps) if planned else ()
    missing: State = "missing" if there is None else "not_declared"
    return ListedTopic(
        topic=one.topic,
        topic_id=there and there.topic_id,
        state=missing if there is None or not declared else "differs" if changes else "as_declared",
        file=place and place.file,
        line=place and place.line,
        pipelines=pipelines,
        partitions=len(there.partitions) if there else None,
        replication_factor=there.replication_factor if there else None,
        config=dict(there.overrides) if there else {},
        changes=changes,
    )


def _keys(there: ObservedTopic) -> dict[str, str]:
    """Return each key with its value as YAML on one line."""
    config = ", ".join(f"{name}: {_value(value)}" for name, value in sorted(there.overrides.items()))
    counts = {"partitions": str(len(there.partitions)), "replicationFactor": str(there.replication_factor)}
    return {**counts, **({"config": f"{{{config}}}"} if config else {})}


def _value(text: str) -> str:
    return text if text.lstrip("-").isdecimal() or text in ("true", "false") else yaml_scalar(text)


def _entry(topic: str, there: ObservedTopic) -> str:
    lines = (f"    {key}: {value}\n" for key, value in _keys(there).items())
    return f"  - name: {yaml_scalar(topic)}\n{''.join(lines)}"


def _properties(there: ObservedTopic) -> str:
    lines = (f"      - {{property: {key}, value: {value}}}\n" for key, value in _keys(there).items())
    return f"    customProperties:\n{''.join(lines)}"


def _add(path: Path, entry: str) -> None:
    """Append an entry to topics.yaml; the existing text is unchanged."""
    before = path.read_text(encoding="utf-8") if path.exists() else "topics:\n"
    content = f"{before}{'' if before.endswith(chr(10)) else chr(10)}{entry}"
    try:
        read_topics_file(path.parent, content)
    except BadInput as error:
        wrong = f"the entry cannot be appended to the file ({error.problem}). Add it yourself:\n{entry}"
        raise BadInput(wrong, file=str(path), line=error.line) from error
    beside = path.with_name(f".{NAME}.{os.getpid()}")
    beside.write_text(content, encoding="utf-8")
    beside.replace(path)
