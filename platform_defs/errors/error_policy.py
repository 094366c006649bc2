"""The policy for every error: the one table. docs/reference/error-policies.md shows it.

Postgres' errors are looked up by SQLSTATE, Kafka's by the name of their code, the registry's by HTTP status, Spark's by
error condition, SQLSTATE or Java class. Code that meets an error raises the class in the table; `of_error` classifies
our own errors. No text is ever interpreted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from platform_defs import errors
from platform_defs.errors import TidegateError


class ErrorPolicy(StrEnum):
    """The consequence of an error. Each failure of a run backs its pipeline off, whatever the class."""

    AWAY = "system away"  # tried again for as long as the system is unavailable, busy or full
    RETRY = "retry"  # tried again, TRIES times in a row; then the pipeline halts
    REFUSED_ROW = "refused row"  # the message is found and becomes a dead letter
    SUSPECT = "suspect message"  # the same, if it still fails after a while, and another message passes
    DENIED = "access denied"  # a password or a right must be set; tried again until it is
    BAD_INPUT = "bad input"  # a contract, table, setting or right must be corrected; tried again like `retry`
    HALT = "halt"  # a person decides, at once
    BUG = "bug"  # a mistake of Tidegate's own; tried again like `retry`


TRIES = 10  # failures in a row of a batch that no system's absence explains; after so many the pipeline halts

AWAY, RETRY, BUG = ErrorPolicy.AWAY, ErrorPolicy.RETRY, ErrorPolicy.BUG
REFUSED, SUSPECT, BAD, HALT = ErrorPolicy.REFUSED_ROW, ErrorPolicy.SUSPECT, ErrorPolicy.BAD_INPUT, ErrorPolicy.HALT
DENIED = ErrorPolicy.DENIED

Place = Literal["ledger", "staging", "table"]  # of the failed statement: the ledger's, COPY's, or one that writes rows


@dataclass(frozen=True)
class ErrorRule:
    """The policy for some codes. `staging` and `table`: for statements that write rows of messages, if it differs
    there.
    """

    codes: tuple[str, ...]
    policy: ErrorPolicy
    why: str
    staging: ErrorPolicy | None = None
    table: ErrorPolicy | None = None

    def at(self, place: Place) -> ErrorPolicy:
        """Return the policy for a statement at `place`."""
        if place == "ledger" or (found := self.staging if place == "staging" else self.table) is None:
            return self.policy
        return found


def _rows(codes: str, why: str) -> ErrorRule:
    """Return a rule for a fault of data when rows are written; for the ledger's own statements, a bug."""
    return ErrorRule(tuple(codes.split()), BUG, why, staging=REFUSED, table=REFUSED)


def _same(codes: str, policy: ErrorPolicy, why: str) -> ErrorRule:
    return ErrorRule(tuple(codes.split()), policy, why)


def _setup(codes: str, why: str) -> ErrorRule:
    """Return a rule for a table that differs from the contract; for statements on our own tables, a bug."""
    return ErrorRule(tuple(codes.split()), BUG, why, table=BAD)


# By class (two characters) or code; a code of its own goes before its class.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
SQLSTATES: Sequence[ErrorRule] = (
    _same("08", AWAY, "The connection was lost, or could not be made."),
    _same("08P01", RETRY, "Server, pooler and client disagree about the protocol; a retry may not help."),
    _same("57 57P01 57P02 57P03", AWAY, "Postgres is stopping or restarting, or an administrator ended the session."),
    _same(
        "57014",
        RETRY,
        "A statement was canceled by a user or by `statement_timeout`; the same batch may take as long again.",
    ),
    _same("57P04", BAD, "The database was dropped."),
    _same("25006", AWAY, "The server is read-only: a standby, until it is promoted."),
    _same("25P03 57P05", AWAY, "The session was idle for too long because the process was suspended."),
    _same("25P04", RETRY, "`transaction_timeout`: the same batch may take as long again."),
    _same("53 53100 53300", AWAY, "Postgres is out of disk space or connections; the batch is not the cause."),
    _same("53200 53400", RETRY, "Out of memory, or over a configured limit: the batch may be too large."),
    _same("55P03 55006", AWAY, "Another session holds a lock; the run retries until the lock is released."),
    _same("55", RETRY, "An object is not in the state that the statement needs."),
    _same("40", RETRY, "The transaction was rolled back because of a conflict or deadlock with another one."),
    _same("58 72", RETRY, "An I/O error on the server, or a snapshot that is too old."),
    _same("XX", RETRY, "An error inside Postgres; a value may cause it (such as a row of more than 1 GB)."),
    _same("XX001 XX002", HALT, "Postgres found corrupt data or a corrupt index: further writes could lose rows."),
    _rows("22 23 44", "A value or row violates its type, a constraint or a view's check."),
    ErrorRule(
        ("54011",), BAD, "A table would have too many columns; dropped ones count.", staging=REFUSED, table=REFUSED
    ),
    _rows("54", "A value exceeds a limit: a key too long for its index, JSON nested too deep."),
    ErrorRule(
        ("P0", "2F", "38", "39"),
        BAD,
        "A trigger or function of the table rejects the row (RAISE, ASSERT, a routine). An event trigger, a trigger or "
        "a hook of the database's owner refuses another statement.",
        staging=REFUSED,
        table=REFUSED,
    ),
    _rows("09 20 21", "A trigger or function of the table rejects the row."),
    _rows("40002", "A deferred constraint is violated."),
    _same("42501", BAD, "The database user lacks a right, or row-level security applies to it."),
    _same("28 0L 0P 2B", BAD, "The database user may not log in, or a role or grant is missing."),
    _same("3D F0", BAD, "There is no such database, or the server's configuration file is broken."),
    _setup("42 3F 0A 27 55P04 HV", "The table differs from the contract, or cannot be written that way."),
    _same("55P02", BAD, "A server setting that the session needs cannot be changed."),
    _same("25 24 26 34 2D 3B 0B 02 03 07", BUG, "Statements were sent in an order that Postgres does not allow."),
    _same("0F 0Z 10", BUG, "An SQL feature that Tidegate does not use."),
)

# By the name of the code, as librdkafka has it (with an underscore: its own; without: the broker's).
KAFKA: Sequence[ErrorRule] = (
    _same(
        """
        _TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _TIMED_OUT _TIMED_OUT_QUEUE _MSG_TIMED_OUT _WAIT_COORD _WAIT_CACHE
        _INTR _RETRY _NODE_UPDATE _DESTROY_BROKER _IN_PROGRESS _PREV_IN_PROGRESS _OUTDATED _ISR_INSUFF
        _CRIT_SYS_RESOURCE _UNKNOWN_BROKER LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION REQUEST_TIMED_OUT
        BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS
        COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND
        NOT_CONTROLLER KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND REASSIGNMENT_IN_PROGRESS FETCH_SESSION_ID_NOT_FOUND
        INVALID_FETCH_SESSION_EPOCH FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH STALE_CTRL_EPOCH
        OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE
        UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED UNKNOWN_CONTROLLER_ID REBOOTSTRAP_REQUIRED
        LISTENER_NOT_FOUND UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID
        """,
        AWAY,
        "A broker is unavailable or busy, or is electing a leader. librdkafka retries by itself, up to a time limit.",
    ),
    _same(
        """
        _AUTO_OFFSET_RESET OFFSET_OUT_OF_RANGE UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION
        _NO_OFFSET _LOG_TRUNCATION
        """,
        RETRY,
        "The offsets, the partition or the topic do not exist, or no longer do. The next run asks the broker why, "
        "and halts if messages are lost.",
    ),
    _same(
        """
        _BAD_MSG _BAD_COMPRESSION _UNDERFLOW _NOT_IMPLEMENTED INVALID_MSG INVALID_MSG_SIZE MSG_SIZE_TOO_LARGE
        RECORD_LIST_TOO_LARGE UNSUPPORTED_COMPRESSION_TYPE _PARTIAL
        """,
        RETRY,
        "The log has data that cannot be read: it is corrupt, or compressed in a way that this librdkafka does not "
        "support.",
    ),
    _same(
        """
        _AUTHENTICATION _SSL TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED
        CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED
        DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
        DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_EXPIRED UNSUPPORTED_SASL_MECHANISM
        ILLEGAL_SASL_STATE SASL_AUTHENTICATION_FAILED SECURITY_DISABLED INVALID_PRINCIPAL_TYPE
        PRINCIPAL_DESERIALIZATION_FAILURE UNACCEPTABLE_CREDENTIAL
        """,
        DENIED,
        "Kafka rejects this user's login, or the user lacks an ACL: correct the password, the certificate or the "
        "ACL. The batch is not the cause, so this never halts a pipeline.",
    ),
    _same(
        """
        _FATAL _INVALID_ARG _FS _UNSUPPORTED_FEATURE _NOT_CONFIGURED _UNKNOWN_PROTOCOL TOPIC_EXCEPTION INVALID_CONFIG
        INVALID_GROUP_ID UNSUPPORTED_VERSION POLICY_VIOLATION UNSUPPORTED_FOR_MESSAGE_FORMAT
        UNSUPPORTED_ENDPOINT_TYPE MISMATCHED_ENDPOINT_TYPE GROUP_MAX_SIZE_REACHED
        """,
        BAD,
        "A setting (TIDEGATE_KAFKA_*) or the topic's name cannot be used, or the brokers are too old.",
    ),
    _same(
        """
        ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT
        REBALANCE_IN_PROGRESS NON_EMPTY_GROUP GROUP_ID_NOT_FOUND MEMBER_ID_REQUIRED FENCED_INSTANCE_ID
        GROUP_SUBSCRIBED_TO_TOPIC FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID STALE_MEMBER_EPOCH
        _MAX_POLL_EXCEEDED _ASSIGNMENT_LOST _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _UNKNOWN_GROUP
        _EXISTING_SUBSCRIPTION
        """,
        RETRY,
        "Another program uses the consumer group whose offsets show progress. No batch depends on it.",
    ),
    _same("UNKNOWN _FAIL _APPLICATION", RETRY, "Kafka gives no reason."),
    _same(
        """
        _DESTROY _STATE _CONFLICT _INVALID_TYPE _READ_ONLY _NOENT _INCONSISTENT _NOOP NO_ERROR _PARTITION_EOF
        _KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION INVALID_REQUEST
        OPERATION_NOT_ATTEMPTED RESOURCE_NOT_FOUND INVALID_PARTITIONS
        """,
        BUG,
        "Tidegate sent an invalid request, or treated a normal event, such as the end of a partition, as an error.",
    ),
    _same(
        """
        _QUEUE_FULL _PURGE_QUEUE _PURGE_INFLIGHT _GAPLESS_GUARANTEE _FENCED _INVALID_DIFFERENT_RECORD
        INVALID_TIMESTAMP OFFSET_METADATA_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE INVALID_REQUIRED_ACKS
        INVALID_RECORD OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH
        INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT CONCURRENT_TRANSACTIONS
        TRANSACTION_COORDINATOR_FENCED UNKNOWN_PRODUCER_ID PRODUCER_FENCED TRANSACTION_ABORTABLE
        TOPIC_ALREADY_EXISTS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT TOPIC_DELETION_DISABLED
        ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS DUPLICATE_RESOURCE INCONSISTENT_VOTER_SET
        INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED UNSUPPORTED_ASSIGNOR UNKNOWN_SUBSCRIPTION_ID
        TELEMETRY_TOO_LARGE INVALID_REGISTRATION INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND
        INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND
        INVALID_REGULAR_EXPRESSION STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH
        STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED
        """,
        BUG,
        "Only producers, transactions, share groups, streams and admin clients get these; a pipeline uses none of "
        "them.",
    ),
)

# By HTTP status of the schema registry's answer, or `none` if there was none that could be read.
# https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors
REGISTRY: Sequence[ErrorRule] = (
    _same(
        "none 408 425 429 500 502 503 504",
        AWAY,
        "No response, an incomplete one, one that is not the registry's JSON, or the registry is too busy. Retried "
        "for 25 seconds, like every status but 404. If the registry then answers for other schemas, it is available "
        "and refuses only this one: that is `bad input`. This does not apply to 408, 425, 429 and 503, which are "
        "never about one schema.",
    ),
    _same(
        "401 403", AWAY, "The registry rejects this user: a token or a password may have expired. Otherwise as above."
    ),
    _same(
        "404",
        REFUSED,
        "The registry has no schema with this id. Requested three times over 5 seconds, since a follower may lag. "
        "Then the messages that name the id become dead letters. The exception is a registry that may be the wrong "
        "one: it has none of the batch's ids, none of the ids that the ledger recorded from it, and no version of "
        "the contract's subject (`bad input`).",
    ),
)

# By error condition, Java class or class of SQLSTATE, of the exception and of its causes: the first that is listed.
# https://spark.apache.org/docs/latest/sql-error-conditions.html
_ABORTED = "org.apache.spark.SparkException"  # wraps whatever else there is
SPARK: Sequence[ErrorRule] = (
    _same("22 23 54 P0 21", REFUSED, "Spark reports that a value is at fault: a cast, a division, raise_error()."),
    _same(
        "PYTHON_EXCEPTION org.apache.spark.api.python.PythonException 38 39",
        SUSPECT,
        "A function in the transform raises an exception, because of the message or because of a service that it "
        "calls.",
    ),
    _same(
        "java.io.EOFException java.net.SocketException",
        SUSPECT,
        "The Python worker died: it was killed, ran out of memory, or crashed on its input.",
    ),
    _same(
        "java.lang.OutOfMemoryError 82 UNABLE_TO_ACQUIRE_MEMORY",
        SUSPECT,
        "Out of memory, because of one message or because of the machine's total load.",
    ),
    _same("java.lang java.util java.time", SUSPECT, "A Java exception in the transform's expressions."),
    _same(
        "SPARK_JOB_CANCELLED org.apache.spark.shuffle.FetchFailedException java.lang.IllegalStateException",
        RETRY,
        "The job was canceled, Spark was stopped, or an executor was lost with its results.",
    ),
    _same(
        "java.io java.nio java.net",
        RETRY,
        "A file or network error on a Spark machine, such as no space or no connection.",
    ),
    _same("42 0A 07 46 56 3F 24 2B 02", BAD, "Spark cannot run the transform."),
    _same("53 58 55 51 40 HV HY KD XX F0", RETRY, "Spark lacks resources, or has an internal error."),
    _same(_ABORTED, RETRY, "A job was aborted with no cause given: an executor was lost, or Spark was stopped."),
)

# By our own errors. An error from Postgres that is tried again keeps its SQLSTATE, which decides.
OWN: Mapping[type[TidegateError], ErrorPolicy] = {
    errors.Retryable: RETRY,
    errors.Fenced: AWAY,
    errors.RunStopped: AWAY,
    errors.TransformChanged: AWAY,
    errors.BrokerAway: AWAY,
    errors.RegistryAway: AWAY,
    errors.LedgerAway: AWAY,
    errors.OutcomeUnknown: AWAY,
    errors.NotDelivered: RETRY,
    errors.UnsentLost: RETRY,
    errors.ProducerBroken: RETRY,
    errors.RowRefused: REFUSED,
    errors.TransformFailed: SUSPECT,
    errors.BatchRejected: RETRY,
    errors.Halt: HALT,
    errors.AccessDenied: DENIED,
    errors.BadInput: BAD,
    errors.InternalError: BUG,
}


@dataclass(frozen=True)
class JavaCause:
    """One exception of a failed Spark job: its Java class, and Spark's error condition and SQLSTATE, if it has them."""

    java_class: str
    condition: str | None = None
    sqlstate: str | None = None

    @property
    def keys(self) -> Iterable[str]:
        """The keys under which the table may list it, the most specific first."""
        yield from (key for key in (self.condition, self.java_class, (self.sqlstate or "")[:2]) if key)
        yield self.java_class.rpartition(".")[0]  # its package


def _by_code(rulings: Sequence[ErrorRule]) -> Mapping[str, ErrorRule]:
    return {code: ruling for ruling in rulings for code in ruling.codes}


_SQLSTATES, _KAFKA, _SPARK = _by_code(SQLSTATES), _by_code(KAFKA), _by_code(SPARK)
_REGISTRY = _by_code(REGISTRY)


def of_sqlstate(code: str | None, place: Place = "ledger") -> ErrorPolicy:
    """Return the policy for an error from Postgres. An error without a code is a lost connection."""
    if code is None:
        return AWAY
    ruling = _SQLSTATES.get(code) or _SQLSTATES.get(code[:2])
    return ruling.at(place) if ruling else RETRY  # an extension's own code


def of_kafka(name: str) -> ErrorPolicy:
    """Return the policy for an error from Kafka, by `KafkaError.name()`. A code of a newer broker is retried."""
    ruling = _KAFKA.get(name)
    return ruling.policy if ruling else RETRY


def of_registry(status: int | None) -> ErrorPolicy:
    """Return the policy for a registry response without a schema. An unlisted status counts as unavailable."""
    ruling = _REGISTRY.get("none" if status is None else str(status))
    return ruling.policy if ruling else AWAY


def of_spark(causes: Sequence[JavaCause]) -> ErrorPolicy:
    """Return the policy for a failed job, by its exception and the causes of that, the outermost first."""
    listed = [_SPARK[key] for cause in causes for key in cause.keys if key in _SPARK]
    telling = [ruling for ruling in listed if _ABORTED not in ruling.codes]
    return (telling or listed)[0].policy if listed else RETRY


def of_error(error: TidegateError) -> ErrorPolicy:
    """Return the policy for an error of our own."""
    if isinstance(error, errors.LedgerAway):
        return of_sqlstate(error.sqlstate)
    return next(OWN[kind] for kind in type(error).__mro__ if kind in OWN)
