"""Listing, description, reset and deletion of consumer groups."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from confluent_kafka import KafkaError, TopicPartition

from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.contract.model.topic import check_topic_name
from platform_defs.errors import BadInput, TidegateError, error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.errors.words import plural
from platform_defs.groups.child import KafkaGroups
from platform_defs.groups.client import Listing
from platform_defs.groups.own_groups import recording_pipeline, shown_pipeline
from platform_defs.groups.reset import OffsetChange, Target, offset_changes
from platform_defs.kafka.client.reader import Reader
from platform_defs.kafka.client.refusals import refusal, refusing
from platform_defs.kafka.client.rights import PAGE, Right, on_cluster
from platform_defs.kafka.group_state import EMPTY, Bounds, Group, GroupPartition, Place, partitions_of, total_lag
from platform_defs.kafka.observed import check_partitions

NAMED = 10  # members in an error
SECONDS = 5.0  # for the first unread messages of all partitions; those without an answer by then stay unknown
# Messages of open and aborted transactions count as unread too. A fetch has one batch of some partitions, not 50 MB.
ONE_OF_EACH: Mapping[str, Any] = {
    "isolation.level": "read_uncommitted",
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1_024,
    "fetch.message.max.bytes": 65_536,
    "fetch.max.bytes": 1_048_576,
}
NO_OFFSETS = (
    "There are no committed offsets, or only in topics that this user may not describe (ACL Describe), which Kafka "
    f"does not list: {PAGE}"
)


@dataclass(frozen=True, kw_only=True)
class CommittedGroup:
    """A group and its committed offsets. `problem`: why its members or its offsets are not known."""

    group: Group
    committed: Mapping[Place, int]
    problem: str | None = None

    @property
    def places(self) -> frozenset[Place]:
        """The partitions that it reads: it has committed offsets there, or its members have them."""
        return self.group.assigned | frozenset(self.committed)


@dataclass(frozen=True, kw_only=True)
class GroupProgress:
    """A group and its progress. `pipeline`: the one of ours whose progress it shows."""

    group: Group
    partitions: tuple[GroupPartition, ...] = ()
    pipeline: str | None = None
    problem: str | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({one.topic for one in self.partitions}))

    @property
    def lag(self) -> int | None:
        """The unread messages of all partitions with known lag; None if none is known."""
        return total_lag(self.partitions)

    @property
    def expired(self) -> int:
        """The number of partitions in which it lags past retention."""
        return sum(1 for one in self.partitions if one.expired)


@dataclass(frozen=True, kw_only=True)
class GroupList:
    """Groups by name, and sentences about what may be missing."""

    groups: tuple[GroupProgress, ...]
    incomplete: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DescribedGroup:
    """A group in full. `seconds`: by partition, the time since the timestamp of the first unread message, if known.
    `problems`: unknown facts, and why.
    """

    progress: GroupProgress
    seconds: Mapping[Place, float] = field(default_factory=dict[Place, float])
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reset:
    """Committed offsets to be moved. `fingerprint`: a hash of the replaced offsets, and of the target and the topics'
    ids.
    """

    group: Group
    changes: tuple[OffsetChange, ...]
    fingerprint: str

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.topic for one in self.changes))


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A group to be deleted, with its committed offsets."""

    progress: GroupProgress
    fingerprint: str


def read_groups(client: KafkaGroups) -> tuple[Listing, tuple[CommittedGroup, ...]]:
    """Return every consumer group with its members and committed offsets, by name. Queries all groups at once."""
    listing = client.listing()
    members = client.describe(name for name, one in listing.groups.items() if one.state != EMPTY)
    committed = client.committed(listing.groups)
    found = list[CommittedGroup]()
    for name, listed in sorted(listing.groups.items()):
        described, offsets = members.get(name, listed), committed.get(name, {})
        problems = [str(one) for one in (described, offsets) if isinstance(one, TidegateError)]
        found.append(
            CommittedGroup(
                group=listed if isinstance(described, TidegateError) else described,
                committed={} if isinstance(offsets, TidegateError) else offsets,
                problem=" ".join(problems) or None,
            )
        )
    return listing, tuple(found)


def incomplete(client: KafkaGroups, listing: Listing) -> tuple[str, ...]:
    """Return sentences about what a listing may lack."""
    sentences = [f"A broker did not list its groups: {why}." for why in listing.unanswered]
    if listing.has_nameless:
        sentences.append('A group without a name (group.id "") is not shown: Kafka returns no information about it.')
    if not listing.sees_all:
        grant = on_cluster("Describe").command(client.options)
        sentences.append(
            "Kafka lists only groups that this user may describe; others are not shown. To see all groups, ask a "
            f"Kafka administrator to grant the right: {grant} ({PAGE} lists all rights)"
        )
    return tuple(sentences)


@dataclass(frozen=True)
class Groups:
    """The operations on groups. `pipelines`: the names of ours."""

    client: KafkaGroups
    pipelines: Collection[str] = ()

    def list_all(self) -> GroupList:
        """Return every group; for other than consumer groups the name, protocol and state. Raises BrokerAway."""
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self._others)
            listing, found = read_groups(self.client)
            bounds = self.client.bounds({place for one in found for place in one.places})
            missing = incomplete(self.client, listing)
            try:
                others = asked.result()
            except TidegateError as error:
                others, missing = {}, (*missing, f"Share, streams and Kafka Connect groups are not listed: {error}")
        groups = [self._progress(one, bounds) for one in found]
        groups += [GroupProgress(group=one) for one in others.values()]
        return GroupList(groups=tuple(sorted(groups, key=lambda one: one.group.name)), incomplete=missing)

    def describe(self, name: str) -> DescribedGroup:
        """Return the group with its members and lags, in messages and seconds. Raises BadInput if there is none."""
        found = self._existing(name)
        progress = self._progress(found, self.client.bounds(found.places))
        behind = {one.place: one.committed for one in progress.partitions if one.lag and not one.expired}
        offsets = {at: offset for at, offset in behind.items() if offset is not None}
        timestamps, problems = _first_unread(self.client.options, offsets)
        now = time.time()
        seconds = {one.place: 0.0 for one in progress.partitions if one.lag == 0}
        for place, milliseconds in timestamps.items():
            if milliseconds is not None:
                seconds[place] = max(0.0, now - milliseconds / 1000)
        problems = problems if progress.partitions else (NO_OFFSETS, *problems)
        return DescribedGroup(progress=progress, seconds=seconds, problems=problems)

    def propose_reset(self, name: str, topics: Sequence[str], numbers: Sequence[int], target: Target) -> Reset:
        """Return the changes of a reset in the partitions `numbers` of each topic: by default all, of the only topic
        that the group reads.

        Raises BadInput for a group that has members, is one of ours or does not exist, and for offsets outside the log;
        TopicMissing.
        """
        self._refuse_ours(name, reset=True)
        found = self._existing(name, stable=True)
        _refuse_active(found.group)
        if not topics:
            topics = sorted({topic for topic, _ in found.places})
            if len(topics) != 1:
                reads = f"reads several topics: {', '.join(topics)}" if topics else "has no committed offsets"
                raise BadInput(f"{name} {reads}. Name the topic to reset", field="--topic")
        topics = list(dict.fromkeys(topics))
        for topic in topics:
            check_topic_name(topic)
        known = self.client.partitions(topics)
        places = [(topic, one) for topic in topics for one in check_partitions(topic, known[topic][1], numbers)]
        bounds = _insist(self.client.bounds(places))
        milliseconds = target.milliseconds
        at_time = (
            {} if milliseconds is None else _insist(self.client.offsets_at(bounds, dict.fromkeys(bounds, milliseconds)))
        )
        changes = offset_changes(target, found.committed, bounds, at_time)
        shown = [
            name,
            str(target),
            [known[topic][0] for topic in topics],
            [(*at, found.committed.get(at)) for at in places],
        ]
        return Reset(group=found.group, changes=changes, fingerprint=fingerprint_of(shown))

    def reset(self, proposed: Reset) -> None:
        """Commit the offsets. Raises ChangedMeanwhile if a consumer has joined the group since."""
        self.client.move(proposed.group.name, {(one.topic, one.partition): one.new for one in proposed.changes})

    def propose_deletion(self, name: str) -> Deletion:
        """Return the group to delete, with the offsets that would be lost. Raises BadInput for one that has members,
        keeps a record of ours, or does not exist.
        """
        self._refuse_ours(name, reset=False)
        found = self._existing(name)
        _refuse_active(found.group)
        cluster = self.client.listing().cluster_id
        shown = [cluster, name, sorted([*at, offset] for at, offset in found.committed.items())]
        progress = self._progress(found, self.client.bounds(found.places))
        return Deletion(progress=progress, fingerprint=fingerprint_of(shown))

    def delete(self, proposed: Deletion) -> None:
        """Delete the group. Raises ChangedMeanwhile if a consumer has joined it since."""
        self.client.delete(proposed.progress.group.name)

    def _progress(self, found: CommittedGroup, bounds: Mapping[Place, Bounds | TidegateError]) -> GroupProgress:
        return GroupProgress(
            group=found.group,
            partitions=partitions_of(found.group, found.committed, bounds),
            pipeline=shown_pipeline(found.group.name, self.pipelines),
            problem=found.problem,
        )

    def _existing(self, name: str, *, stable: bool = False) -> CommittedGroup:
        if not name or os.fsencode(name) != name.encode(errors="replace"):
            raise BadInput(
                f"{name!r} cannot be the name of a consumer group: a name must not be empty, and must be UTF-8"
            )
        described = self.client.describe([name]).get(name)
        if isinstance(described, TidegateError):
            raise described
        committed = self.client.committed([name], stable=stable).get(name, {})
        if isinstance(committed, TidegateError):
            raise committed
        if described is None:
            raise self._missing(name)
        return CommittedGroup(group=described, committed=committed)

    def _others(self) -> dict[str, Group]:
        """Return the groups that are not of consumers: share, streams and Kafka Connect groups."""
        from platform_defs.kafka.cluster_admin import KafkaCluster  # kafka-python, only for this

        found = KafkaCluster(self.client.options, self.client.timeout).groups()
        return {name: one for name, one in found.items() if one.type not in ("", "consumer")}

    def _missing(self, name: str) -> BadInput:
        with suppress(TidegateError):
            if (other := self._others().get(name)) is not None:
                return BadInput(
                    f"{name} is a group of type {other.type}, not a consumer group. Tidegate only lists such groups: "
                    "use Kafka's own tools"
                )
        near = get_close_matches(name, self.client.listing().groups)
        meant = f"; did you mean {near[0]}?" if near else ""
        return BadInput(
            f"there is no consumer group {name}{meant} (tidegate groups list shows those that this user may describe)"
        )

    def _refuse_ours(self, name: str, *, reset: bool) -> None:
        if (pipeline := recording_pipeline(name)) is not None:
            raise BadInput(
                f"{name} records which Dagster runs have written to the topic of {pipeline}: without it, a retried run "
                "would write its messages again. Nothing was changed. Kafka removes the group after a week without "
                "commits (offsets.retention.minutes)"
            )
        if reset and (pipeline := shown_pipeline(name, self.pipelines)) is not None:
            raise BadInput(
                f"{name} only shows the progress of the pipeline {pipeline}, whose position is in the ledger: a reset "
                "would have no effect, and the next run overwrites it. Nothing was changed. To read messages again: "
                f"tidegate replay {pipeline}"
            )


def _refuse_active(group: Group) -> None:
    """Raise BadInput if the group has members, or is about to."""
    if not group.members and group.state == EMPTY:
        return
    named = "; ".join(map(str, group.members[:NAMED]))
    more = f"; and {len(group.members) - NAMED} more" if len(group.members) > NAMED else ""
    raise BadInput(
        f"{group.name} is not empty: it has {plural(len(group.members), 'member')} ({named}{more}), state "
        f"{group.state}. Kafka moves the offsets of a group, or deletes it, only while it is empty. Nothing was "
        "changed. Stop its consumers, wait until the group is empty (a consumer that was killed leaves it after its "
        "session timeout, 45 s by default), and run the command again"
    )


Answer = TypeVar("Answer", Bounds, int)


def _insist(answers: Mapping[Place, Answer | TidegateError]) -> dict[Place, Answer]:
    """Return the answers. Raises the first error among them."""
    found = dict[Place, Answer]()
    for place, answer in answers.items():
        if isinstance(answer, TidegateError):
            raise answer
        found[place] = answer
    return found


def _first_unread(
    options: Mapping[str, Any], offsets: Mapping[Place, int]
) -> tuple[dict[Place, int | None], tuple[str, ...]]:
    """Return the timestamp of the first message at or past each offset, in ms since the epoch, by partition; None if
    there is no message, or it has no timestamp. Then why others are unknown, each reason only once.

    One message of each partition is read, by a consumer without a group. Needs the right Read on the topics.
    """
    # They import Arrow, which Dagster's definitions do not wait for.
    from platform_defs.formats.blocks.block import timestamp_ms
    from platform_defs.kafka.source import READING

    if not offsets:
        return {}, ()
    with refusing("a consumer", options):
        consumer = Reader({**options, **READING, **ONE_OF_EACH})
    found, problems, until = dict[Place, int | None](), dict[str, None](), time.monotonic() + SECONDS
    with closing(consumer):
        consumer.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()])
        waiting = {*offsets}
        while waiting and time.monotonic() < until:
            for message in consumer.consume(100, timeout=0.1):
                place = str(message.topic()), int(message.partition() or 0)
                error = message.error()
                if place not in waiting or (
                    error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
                ):
                    continue  # a second message of a batch; or about a coordinator, which is not needed here
                if error is None or error.code() == KafkaError._PARTITION_EOF:
                    found[place] = timestamp_ms(*message.timestamp()) if error is None else None
                elif error_policy.of_kafka(error.name()) is ErrorPolicy.DENIED:
                    needed = [Right("topic", place[0], ("Read",))]
                    problems[str(refusal(error, f"to read {place[0]}", needed, options))] = None
                elif error.retriable():
                    continue
                else:
                    problems[f"{place[0]}-{place[1]} cannot be read at offset {offsets[place]}: {error.str()}"] = None
                waiting.discard(place)
                consumer.pause([TopicPartition(*place)])
    if waiting:
        problems[
            f"{len(waiting)} of {plural(len(offsets), 'partition')} returned no message within {SECONDS:.0f} s"
        ] = None
    return found, tuple(problems)
