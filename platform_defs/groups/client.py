"""Queries about consumer groups, many at once, and changes to them."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_END,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, OffsetSpec

from platform_defs.errors import BadInput, BrokerAway, ChangedMeanwhile, TidegateError, TopicMissing, error_policy
from platform_defs.errors.error_policy import ErrorPolicy
from platform_defs.errors.words import plural
from platform_defs.kafka.client.admin_client import admin_client
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right, on_cluster, to_describe
from platform_defs.kafka.group_state import CLASSIC, CONSUMER, DEAD, EMPTY, STABLE, Bounds, Group, Member, Place
from platform_defs.settings.settings import settings

TRIES = 3  # of a query about groups, within its time
PAUSE = 0.3  # seconds between two of them
ITS_TOPICS = to_describe("TOPIC")  # read by members of a KIP-848 group: Kafka does not report which topic is meant
AT_ONCE = 250  # groups in one go: each is a request to its coordinator, after one that finds it

# Kafka's names. librdkafka 2.16 has none for the states Assigning and Reconciling of KIP-848: both are unknown to it.
_STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: STABLE,
    ConsumerGroupState.DEAD: DEAD,
    ConsumerGroupState.EMPTY: EMPTY,
}
_TYPES = {ConsumerGroupType.CONSUMER: CONSUMER, ConsumerGroupType.CLASSIC: CLASSIC}
_ACTIVE = {  # a broker's refusals to change a group that has members
    *(KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION),
    *(KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH, KafkaError.GROUP_SUBSCRIBED_TO_TOPIC),
}

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The groups that this user may describe, without members, by name. `unanswered`: why brokers did not list theirs.

    `sees_all`: False if Kafka omits groups that this user has no right to. `has_nameless`: True if there is a group
    without a name, which is not listed.
    """

    groups: Mapping[str, Group]
    cluster_id: str | None = None
    unanswered: tuple[str, ...] = ()
    sees_all: bool = True
    has_nameless: bool = False


@dataclass
class GroupClient:
    """Queries and changes groups over one client, which may end the process (child.py). `options` are librdkafka's;
    `timeout` in seconds is for each query.

    Raises BrokerAway if no answer came in time, AccessDenied for a missing right. One group's error is its own answer,
    and hides no other.
    """

    options: Mapping[str, Any] = field(repr=False)  # may contain a password
    timeout: float = 10.0
    _client: Any = None

    def listing(self) -> Listing:
        """Return the consumer groups that this user may describe: Kafka omits others without an error."""
        admin, place, needed = self._admin(), "to list consumer groups", [on_cluster("Describe")]
        cluster = admin.describe_cluster(include_authorized_operations=True, request_timeout=self.timeout)
        listed = admin.list_consumer_groups(request_timeout=self.timeout)
        try:
            described = self._value(cluster, "to describe the cluster")
            found = self._value(listed, place, needed)
            errors: list[KafkaError] = found.errors or []
            if errors and not found.valid:
                raise self._error(errors[0], place, needed)
        except BrokerAway:
            self._client = None  # the next query starts again from the bootstrap address
            raise
        groups = {
            one.group_id: Group(name=one.group_id, type=_TYPES.get(one.type, CLASSIC), state=_state(one.state))
            for one in found.valid
            if one.group_id  # "": clients refuse to query it
        }
        admin.forget()
        return Listing(
            groups=groups,
            unanswered=tuple(error.str() for error in errors),
            has_nameless=any(not one.group_id for one in found.valid),
            cluster_id=described.cluster_id,
            sees_all=AclOperation.DESCRIBE in (described.authorized_operations or ()),
        )

    def describe(self, names: Iterable[str]) -> dict[str, Group | TidegateError]:
        """Return each group with its members, by name, without groups that do not exist, whose state Kafka calls Dead,
        and groups of other protocols.
        """

        def ask(admin: Any, some: list[str]) -> dict[str, Future[Any]]:
            return admin.describe_consumer_groups(some, request_timeout=self.timeout / TRIES)

        found = self._each(names, ask, lambda _, answer: _group(answer), "to describe")
        return {name: one for name, one in found.items() if isinstance(one, TidegateError) or one.state != DEAD}

    def committed(self, names: Iterable[str], *, stable: bool = False) -> dict[str, dict[Place, int] | TidegateError]:
        """Return the committed offsets of each group, by name; Kafka omits topics that this user may not describe.
        `stable`: BrokerAway in place of offsets that an open transaction may still change.
        """

        def ask(admin: Any, some: list[str]) -> dict[str, Future[Any]]:
            asked = dict[str, Future[Any]]()
            for name in some:  # one group a call; all are in flight before the first is waited for
                wanted = [ConsumerGroupTopicPartitions(name)]
                asked |= admin.list_consumer_group_offsets(
                    wanted, require_stable=stable, request_timeout=self.timeout / TRIES
                )
            return asked

        return self._each(names, ask, self._offsets, "to list the offsets of")

    def bounds(self, places: Iterable[Place]) -> dict[Place, Bounds | TidegateError]:
        """Return log start and high watermark of each partition, or its error. Queries each broker twice."""
        wanted = sorted(places)
        starts = self._offsets_of(dict.fromkeys(wanted, OffsetSpec.earliest()))
        ends = self._offsets_of(dict.fromkeys(wanted, OffsetSpec.latest()))
        found = dict[Place, Bounds | TidegateError]()
        for place in wanted:
            start, end = starts[place], ends[place]
            if isinstance(start, TidegateError):
                found[place] = start
            elif isinstance(end, TidegateError):
                found[place] = end
            else:
                found[place] = Bounds(log_start=start, end=end)
        return found

    def offsets_at(
        self, bounds: Mapping[Place, Bounds], milliseconds: Mapping[Place, int]
    ) -> dict[Place, int | TidegateError]:
        """Return the first offset of each partition whose timestamp is `milliseconds` since the epoch or later, or its
        end; or its error.
        """
        specs = {place: OffsetSpec.for_timestamp(at) for place, at in milliseconds.items()}
        found = self._offsets_of(specs, least=OFFSET_END)
        return {place: bounds[place].end if at == OFFSET_END else at for place, at in found.items()}

    def partitions(self, topics: Sequence[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the id and the partitions of each topic. Raises TopicMissing."""
        asked = self._admin().describe_topics(TopicCollection([*topics]), request_timeout=self.timeout)
        found = dict[str, tuple[str, tuple[int, ...]]]()
        for topic in topics:
            try:
                one = self._value(asked[topic], f"to describe {topic}", [to_describe(topic)])
            except _Missing as error:
                raise TopicMissing.named(topic) from error
            found[topic] = str(one.topic_id), tuple(sorted(item.id for item in one.partitions))
        return found

    def move(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Commit these offsets. Raises ChangedMeanwhile if the group has members by now."""
        wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
        request = [ConsumerGroupTopicPartitions(group, wanted)]
        asked = self._admin().alter_consumer_group_offsets(request, request_timeout=self.timeout)
        topics = dict.fromkeys(topic for topic, _ in sorted(offsets))
        needed = [Right("group", group, ("Read",)), *(Right("topic", topic, ("Read",)) for topic in topics)]
        place = f"to commit offsets of the consumer group {group}"
        self._changed(asked[group], group, place, needed)

    def delete(self, group: str) -> None:
        """Delete the group with its committed offsets. Raises ChangedMeanwhile if it has members by now."""
        asked = self._admin().delete_consumer_groups([group], request_timeout=self.timeout)
        place, needed = f"to delete the consumer group {group}", [Right("group", group, ("Delete",))]
        self._changed(asked[group], group, place, needed)

    def _changed(self, future: Future[Any], group: str, place: str, needed: Sequence[Right]) -> None:
        """Wait for the change. Kafka may refuse it for the group, or in each partition."""
        try:
            done = self._value(future, place, needed)
            partitions: list[Any] = [] if done is None else done.topic_partitions
            failed = [one for one in partitions if one.error is not None]
            if failed:
                first, others = failed[0], len(partitions) - len(failed)
                partly = f" ({others} of {plural(len(partitions), 'offset')} committed)" if others else ""
                raise self._error(first.error, f"{place} in {first.topic}-{first.partition}{partly}", needed)
        except _Active as error:
            raise ChangedMeanwhile(
                f"a consumer joined {group} in the meantime: nothing was changed. To see its members: tidegate groups "
                f"describe {group}"
            ) from error
        except _Missing as error:
            raise ChangedMeanwhile(f"{group} was deleted in the meantime: nothing was changed") from error

    def _each(
        self,
        names: Iterable[str],
        ask: Callable[[Any, list[str]], dict[str, Future[Any]]],
        read: Callable[[str, Any], Answer],
        what: str,
    ) -> dict[str, Answer | TidegateError]:
        """Return the result of `read` for each group's answer, or the error in its place; groups that do not exist are
        omitted.

        Groups without an answer are queried again: librdkafka does not notice that a coordinator that was missing at
        first has appeared (as with the first group of a cluster).
        """
        waiting, found, admin = [*dict.fromkeys(names)], dict[str, Answer | TidegateError](), self._admin()
        for number in range(TRIES):
            if number and waiting:
                time.sleep(PAUSE)
            for first in range(0, len(waiting), AT_ONCE):
                for name, future in ask(admin, waiting[first : first + AT_ONCE]).items():
                    needed = [Right("group", name, ("Describe",)), ITS_TOPICS]
                    try:
                        found[name] = read(name, self._value(future, f"{what} the consumer group {name}", needed))
                    except _Missing:
                        found.pop(name, None)
                    except TidegateError as error:
                        found[name] = error
            waiting = [name for name in waiting if isinstance(found.get(name), BrokerAway)]
        return found

    def _offsets(self, group: str, answer: Any) -> dict[Place, int]:
        for one in answer.topic_partitions:
            if one.error is not None:
                needed = [Right("group", group, ("Describe",))]
                raise self._error(one.error, f"to list the offsets of the consumer group {group}", needed)
        return {(one.topic, one.partition): one.offset for one in answer.topic_partitions if one.offset >= 0}

    def _offsets_of(self, specs: Mapping[Place, Any], least: int = 0) -> dict[Place, int | TidegateError]:
        """Return the requested offset of each partition, or its error."""
        if not specs:
            return {}
        wanted = {TopicPartition(*place): spec for place, spec in specs.items()}
        asked = self._admin().list_offsets(wanted, request_timeout=self.timeout)
        found = {
            (at.topic, at.partition): self._offset(future, (at.topic, at.partition), least)
            for at, future in asked.items()
        }
        unled = {topic for (topic, _), one in found.items() if isinstance(one, _NoLeader)}
        reasons = self._undescribed(unled)
        return {
            place: reasons.get(place[0], one) if isinstance(one, _NoLeader) else one for place, one in found.items()
        }

    def _offset(self, future: Future[Any], place: Place, least: int) -> int | TidegateError:
        topic, partition = place
        try:
            found = self._value(future, f"to list the offsets of {topic}", [to_describe(topic)])
        except _Missing:
            return BadInput(f"topic {topic} has no partition {partition}, or does not exist")
        except TidegateError as error:
            return error
        if found.offset < least:  # librdkafka's answer, without an error, if a leader died just now
            return _NoLeader(f"the leader of partition {partition} of {topic} does not answer, or there is none")
        return found.offset

    def _undescribed(self, topics: Collection[str]) -> dict[str, TidegateError]:
        """Return the errors of the `topics` that this user may not describe, or that do not exist: librdkafka gives
        none if it finds no leader for any requested partition.
        """
        if not topics:
            return {}
        found = dict[str, TidegateError]()
        asked = self._admin().describe_topics(TopicCollection([*topics]), request_timeout=self.timeout)
        for topic, future in asked.items():
            try:
                self._value(future, f"to describe {topic}", [to_describe(topic)])
            except _Missing:
                found[topic] = TopicMissing.named(topic)
            except TidegateError as error:
                found[topic] = error
        return found

    def _admin(self) -> Any:
        if self._client is None:
            self._client = admin_client(self.options)
        return self._client

    def _value(self, future: Future[Any], place: str, needed: Sequence[Right] = ()) -> Any:
        """Return the answer. Raises _Missing, _Active, _NoLeader, BrokerAway, and the errors of `refusal`."""
        try:
            return future.result(timeout=2 * self.timeout)
        except KafkaException as error:
            raise self._error(error.args[0], place, needed) from error
        except TimeoutError as error:
            raise self._away("no answer in time", place) from error

    def _error(self, reason: KafkaError, place: str, needed: Sequence[Right]) -> TidegateError:
        if reason.name() in _MISSING:
            return _Missing(f"Kafka refuses the request {place}: {reason.str()}")
        if reason.code() == KafkaError._NOENT:  # pyright: ignore[reportPrivateUsage]
            return _NoLeader(f"Kafka names no leader in answer to the request {place}")
        if reason.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            return BrokerAway(
                f"Kafka refuses the request {place}: the offsets are part of an open transaction. Try again once it "
                "has ended"
            )
        if reason.code() in _ACTIVE:
            return _Active(f"Kafka refuses the request {place}: {reason.str()}")
        if error_policy.of_kafka(reason.name()) is ErrorPolicy.AWAY:
            reason = self._admin().denied or reason
        return refusal(reason, place, needed, self.options) or self._away(self._admin().why(reason), place)

    def _away(self, why: str, place: str) -> BrokerAway:
        return BrokerAway(
            f"Kafka at {self.options['bootstrap.servers']} did not answer the request {place}: {why}. "
            f"{settings().kafka_advice}"
        )


_MISSING = {"GROUP_ID_NOT_FOUND", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}


class _Missing(BadInput):
    """The group or topic does not exist."""


class _NoLeader(BrokerAway):
    """A partition has no leader, or it is hidden from this user."""


class _Active(BadInput):
    """The group has members."""


def _state(state: ConsumerGroupState) -> str:
    return _STATES.get(state, "Unknown")


def _group(described: Any) -> Group:
    members = tuple(
        Member(
            member_id=one.member_id,
            client_id=one.client_id,
            host=one.host.removeprefix("/"),
            instance_id=one.group_instance_id or None,
            partitions=_places(one.assignment.topic_partitions),
            target=one.target_assignment and _places(one.target_assignment.topic_partitions),
        )
        for one in described.members
    )
    kind, state = _TYPES.get(described.type, CLASSIC), _state(described.state)
    if kind == CONSUMER and state == "Unknown" and members:
        state = "Reconciling" if any(one.target != one.partitions for one in members) else "Assigning"
    node = described.coordinator
    return Group(
        name=described.group_id,
        type=kind,
        state=state,
        assignor=described.partition_assignor or None,
        coordinator=node and node.id,
        coordinator_address=node and f"{node.host}:{node.port}",
        members=members,
    )


def _places(found: Iterable[TopicPartition]) -> tuple[Place, ...]:
    return tuple(sorted((one.topic, one.partition) for one in found))
