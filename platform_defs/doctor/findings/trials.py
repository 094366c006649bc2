"""Findings about reading and writing for a trial."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from platform_defs.doctor.findings.finding import Finding, Subject
from platform_defs.doctor.findings.topics import TopicLook, TopicState
from platform_defs.errors.words import plural


@dataclass(frozen=True)
class Place:
    """The place to read from: a partition, led by that broker, at its end or at an offset."""

    topic: str
    partition: int
    leader: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Written:
    """A message written for a trial, or the problem."""

    topic: str
    partition: int | None = None
    offset: int | None = None
    problem: str | None = None
    behind: float | None = None  # s by which our clock is behind the broker's, if it stamps messages (LogAppendTime)


def places_to_read(looks: Sequence[TopicLook]) -> list[Place]:
    """Return one partition of the pipelines' topics for each broker that leads any: each one has to answer a fetch."""
    found = dict[int, Place]()
    for look in looks:
        for partition, leader in look.outcome.leaders.items() if isinstance(look.outcome, TopicState) else ():
            if leader is not None:
                found.setdefault(leader, Place(look.topic, partition, leader))
    return list(found.values())


def reading(answers: Mapping[Place, str | None]) -> Iterator[Finding]:
    """Yield the findings about reading from each broker."""
    if not answers:
        yield Subject("kafka", "reading").well("Reading was not checked: no pipeline has a topic to read from.")
    worked = [place for place, problem in answers.items() if problem is None]
    if worked:
        brokers = ", ".join(sorted({str(place.leader) for place in worked}))
        yield Subject("kafka", "reading").well(
            f"Reading works, from {plural(len(worked), 'partition')} on brokers {brokers}."
        )
    for place, problem in answers.items():
        if problem is not None:
            yield Subject("kafka", "reading").error(
                f"Partition {place.partition} of {place.topic} could not be read from its leader, broker "
                f"{place.leader}: {problem}.",
                f"Fix the findings about the address of broker {place.leader} and the rights on {place.topic} "
                "first. If the problem remains, check the broker's log.",
            )


def writing(written: Written, read_back: str | None) -> Finding:
    """Return the finding about writing a message and reading it again."""
    if written.problem is not None:
        return Subject("kafka", "writing").error(
            f"A message could not be written to {written.topic}: {written.problem}.",
            f"The user needs Write on {written.topic}; if too few replicas are in sync, start the brokers that are "
            "down (the findings about topics name them).",
        )
    where = f"offset {written.offset} of partition {written.partition} of {written.topic}"
    if read_back is not None:
        return Subject("kafka", "writing").error(
            f"A message was written to {where} but could not be read back: {read_back}.",
            f"The user needs Read on {written.topic}; the findings about addresses show whether its leader can be "
            "reached.",
        )
    return Subject("kafka", "writing").well(f"Writing works: one message, at {where}, was written and read back.")


def not_written() -> Finding:
    """Return the finding that writing was not tried, since no topic is named for it."""
    return Subject("kafka", "writing").well(
        "Writing was not checked, because the test message would stay in the topic. To check it: tidegate doctor "
        "--write TOPIC, with a topic that no pipeline reads."
    )
