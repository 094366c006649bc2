"""Observes and reassigns what librdkafka cannot: the quorum, fenced brokers, log folders, reassignments.

The only module that imports kafka-python (docs/decisions/0022-kafka-python.md). Each query opens its own connection and
closes it. After a third of the time limit without an answer, another bootstrap server is tried.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from threading import Thread
from typing import Any

from confluent_kafka import KafkaError
from kafka import errors
from kafka.admin import KafkaAdminClient
from kafka.net import manager
from kafka.net.compat import KafkaNetClient
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.structs import TopicPartition

from platform_defs.errors import BadInput, BrokerAway, TidegateError
from platform_defs.kafka.client.refusals import refusal
from platform_defs.kafka.client.rights import Right, on_cluster
from platform_defs.kafka.client.second_client import second_options
from platform_defs.kafka.client.tokens import NoToken
from platform_defs.kafka.group_state import Group
from platform_defs.kafka.observed import Broker, Moving, Quorum, Voter
from platform_defs.settings.settings import settings

# What kafka-python logs at librdkafka's log_level: nothing below 3, since its warnings are in the error raised.
_LOG_LEVELS = {"3": logging.ERROR, "4": logging.WARNING, "5": logging.INFO, "6": logging.INFO, "7": logging.INFO}
TRIES = 3  # tries that fit in the time limit if no server answers
PAUSE = 0.1  # seconds between two


@dataclass(frozen=True)
class KafkaCluster:
    """Queries and commands for the controller. `options` are librdkafka's, with `bootstrap.servers`.

    Each method raises BrokerAway if no answer came within `timeout` seconds, and BadInput for what only a user can fix:
    rights, certificates, an option that kafka-python does not have (kafka/client/second_client.py).
    """

    options: Mapping[str, str] = field(repr=False)  # may contain a password
    timeout: float = 15.0

    def quorum(self) -> Quorum:
        """Return the leader and the voters of the quorum (DescribeQuorum). Needs the ACL Describe on the cluster.

        DescribeCluster's controller is any live broker in KRaft (apache/kafka#14306), so it is not used.
        """
        answer = self._ask("to describe the quorum", lambda admin: admin.describe_metadata_quorum())
        (partition,) = answer["topics"][0]["partitions"]
        if partition["error"] is not None:
            raise self._away("to describe the quorum", partition["error"])
        return _quorum(partition)

    def brokers(self) -> tuple[Broker, ...]:
        """Return every registered broker, also fenced ones, by id. Does not test whether they answer. `fenced` needs
        Kafka 4.0; older versions do not list fenced brokers.
        """
        answer = self._ask("to describe the cluster", lambda admin: admin.describe_cluster())
        found = (
            Broker(one["broker_id"], f"{one['host']}:{one['port']}", one["rack"], bool(one.get("is_fenced")))
            for one in answer["brokers"]
        )
        return tuple(sorted(found, key=lambda one: one.id))

    def replica_sizes(self, brokers: Sequence[int]) -> dict[int, dict[tuple[str, int], int] | TidegateError]:
        """Return the bytes of each broker's replicas, by topic and partition, without replicas that move here from
        another log folder of the broker. One broker's error is its own answer, and hides no other.

        Needs the ACL Describe on the cluster.
        """

        def answer(broker: int) -> dict[tuple[str, int], int] | TidegateError:
            place = f"to describe the log folders of broker {broker}"
            try:
                messages = self._ask(place, lambda admin: admin.describe_log_dirs(brokers=[broker]))
            except TidegateError as error:
                return error
            if not messages[0]["log_dirs"]:  # every broker has one; kafka-python drops the error of the whole answer
                denied = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
                refused = refusal(denied, place, (on_cluster("Describe"),), self.options)
                return refused or self._away(place, denied.str())
            topics = [topic for folder in messages[0]["log_dirs"] for topic in folder["topics"]]
            return {
                (topic["name"], one["partition_index"]): one["partition_size"]
                for topic in topics
                for one in topic["partitions"]
                if not one["is_future_key"]
            }

        with ThreadPoolExecutor(8) as pool:
            return dict(zip(brokers, pool.map(answer, brokers), strict=True))

    def groups(self) -> dict[str, Group]:
        """Return the groups of any protocol that this user may describe, without members, by name (ListGroups). `type`
        is the protocol: consumer, share, streams, connect; empty for a group that only has committed offsets.

        librdkafka lists only consumer groups.
        """
        messages = self._ask("to list groups", lambda admin: admin.list_groups())
        return {
            one["group_id"]: Group(
                name=one["group_id"], type=one["protocol_type"], state=one.get("group_state") or "Unknown"
            )
            for one in messages
        }

    def reassignments(self) -> tuple[Moving, ...]:
        """Return the reassignments in progress, by topic and partition."""
        answer = self._ask("to list reassignments", lambda admin: admin.list_partition_reassignments())
        found = (
            Moving(
                at.topic,
                at.partition,
                tuple(one["replicas"]),
                tuple(one["adding_replicas"]),
                tuple(one["removing_replicas"]),
            )
            for at, one in answer.items()
        )
        return tuple(sorted(found, key=lambda one: (one.topic, one.number)))

    def reassign(self, wanted: Mapping[tuple[str, int], Sequence[int] | None]) -> dict[tuple[str, int], str | None]:
        """Begin to move partitions, by topic and number, to these brokers, the preferred leader first; None cancels.

        Return Kafka's answer for each: None if it has begun, else the name of its error (INVALID_REPLICA_ASSIGNMENT,
        NO_REASSIGNMENT_IN_PROGRESS). Kafka raises for none of them, so check each. Repeating it changes nothing.
        """
        orders = {TopicPartition(*at): None if to is None else list(to) for at, to in wanted.items()}
        answer = self._ask("to reassign partitions", lambda admin: admin.alter_partition_reassignments(orders), "Alter")
        return {(at.topic, at.partition): error and KafkaError(error.errno).name() for at, error in answer.items()}

    def _ask(self, place: str, question: Callable[[Any], Any], operation: str = "Describe") -> Any:
        """Return the answer of the first bootstrap server that gives one. Raises as the class does.

        `operation`: the required ACL on the cluster.
        """
        log, level = logging.getLogger("kafka"), str(self.options.get("log_level"))
        log.setLevel(_LOG_LEVELS.get(level, logging.CRITICAL))
        if level in _LOG_LEVELS and not log.hasHandlers():
            log.addHandler(logging.StreamHandler())  # to stderr, as librdkafka does
        needed = on_cluster(operation)
        given, message = dict(second_options(self.options)), ""
        if give := given.get("sasl_oauth_token_provider"):
            given["sasl_oauth_token_provider"] = Tokens(give)
        until = time.monotonic() + self.timeout
        for server in cycle(str(given.get("bootstrap_servers", "")).split(",")):
            if (left := until - time.monotonic()) <= 0:
                break
            try:
                return _within(min(left, self.timeout / TRIES), {**given, "bootstrap_servers": server}, question)
            except errors.KafkaError as error:
                if (refused := _refused(error, place, needed, self.options)) is not None:
                    raise refused from error
                message = message if message and isinstance(error, errors.KafkaTimeoutError) else str(error)
            time.sleep(PAUSE)
        raise self._away(place, message)

    def _away(self, place: str, why: str) -> BrokerAway:
        servers = self.options.get("bootstrap.servers", "")
        return BrokerAway(
            f"Kafka at {servers} did not answer the request {place} within {self.timeout:g} s: {why}. "
            f"A majority of its controllers must be up. {settings().kafka_advice}"
        )


Read = tuple[bytes, errors.KafkaConnectionError | None]  # and the error that ended the connection


def _answer_first(received: bytes, end: errors.KafkaConnectionError | None) -> Read:
    """Return what was read first, and the end of the connection at the next read. kafka-python 3.0.12 drops what it
    reads together with the end. A broker that refuses a password answers and closes at once, so its reason would be
    lost whenever this process wakes up a moment later.
    """
    return received, None if received else end


class PlainTransport(KafkaTCPTransport):
    def _sock_recv(self) -> Read:
        return _answer_first(*super()._sock_recv())


class TlsTransport(KafkaSSLTransport):
    def _sock_recv(self) -> Read:
        return _answer_first(*super()._sock_recv())


manager.KafkaTCPTransport, manager.KafkaSSLTransport = PlainTransport, TlsTransport


class Tokens(AbstractTokenProvider):
    """Tokens as librdkafka's, one for each connection, from `give`."""

    def __init__(self, give: Callable[[], tuple[Any, ...]]) -> None:
        self._give = give

    def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  # kafka-python's has no type
        try:
            return self._give()[0]
        except NoToken as error:
            raise errors.SaslAuthenticationFailedError(str(error)) from error


def _within(seconds: float, options: Mapping[str, Any], question: Callable[[Any], Any]) -> Any:
    """Return the answer from a new client, which is closed. Raises kafka-python's errors; KafkaTimeoutError after
    `seconds`.

    In a thread, because the client itself waits without a limit for a TLS handshake and for the lookup of a name.
    """
    answer, clients = Future[Any](), list[Any]()

    def ask() -> None:
        try:
            answer.set_result(_answer(seconds, options, question, clients))
        except BaseException as error:  # noqa: BLE001  # raised again in the caller, which waits for the answer
            answer.set_exception(error)

    Thread(target=ask, name="kafka-python", daemon=True).start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError as error:
        for client in clients:
            with suppress(RuntimeError):  # the client has not started its own thread yet
                client._net.stop(timeout_ms=0)  # wakes the thread, which then closes the client
        raise errors.KafkaTimeoutError(f"no answer within {seconds:.1f} s") from error


def _answer(seconds: float, options: Mapping[str, Any], question: Callable[[Any], Any], clients: list[Any]) -> Any:
    """Ask with a new client. Every client, also one whose connection failed, is in `clients` before it connects."""

    def make(**given: Any) -> Any:
        clients.append(client := KafkaNetClient(**given))
        _connect(client)
        return client

    limit = int(seconds * 1000)
    limits: dict[str, Any] = {"request_timeout_ms": limit, "bootstrap_timeout_ms": limit}
    try:
        return question(KafkaAdminClient(**options, **limits, kafka_client=make))
    except RuntimeError as error:  # kafka-python's, if it was stopped or found no controller
        raise errors.KafkaConnectionError(str(error)) from error
    finally:
        for client in clients:
            with suppress(RuntimeError):  # it was stopped and has not ended yet
                client.close()


def _connect(client: Any) -> None:
    """Connect, or raise what prevents it: without this the client retries any error until its time is over, and does
    not report it.
    """

    async def connected() -> None:
        (server, *_) = client.cluster.bootstrap_brokers()
        await client._manager.get_connection(server.node_id, pop_on_close=False, refresh_metadata_on_err=False)

    client._net.start()
    client._net.run(connected)


def _refused(error: errors.KafkaError, place: str, needed: Right, options: Mapping[str, str]) -> TidegateError | None:
    """As `refusal`, for an error of kafka-python's."""
    if isinstance(error, errors.KafkaConfigurationError):
        return BadInput(f"kafka-python cannot use the Kafka options: {error}")
    number = getattr(error, "errno", None)
    if not isinstance(number, int) or number <= 0:
        return None
    return refusal(KafkaError(number), place, (needed,), options)


def _quorum(answer: Mapping[str, Any]) -> Quorum:
    """Return the quorum. A voter's silence counts from the latest fetch of any: all times are the leader's."""
    found = sorted(answer["current_voters"], key=lambda one: one["replica_id"])
    ends = {one["replica_id"]: one["log_end_offset"] for one in found}
    end = ends.get(answer["leader_id"], answer["high_watermark"])
    now = max((one["last_fetch_timestamp"] for one in found), default=0)
    silences = (now - at if (at := one["last_fetch_timestamp"]) >= 0 else None for one in found)  # -1: never fetched
    lags = (max(0, end - one["log_end_offset"]) for one in found)
    voters = map(Voter, (one["replica_id"] for one in found), lags, silences)
    return Quorum(answer["leader_id"], answer["leader_epoch"], tuple(voters))
