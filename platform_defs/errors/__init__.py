"""Every error the engine raises on purpose.

TidegateError
├── Retryable                nothing was lost and nothing half-written; the next run continues from the ledger
│   ├── Fenced               another run took the pipeline over; this one changed nothing
│   ├── PipelineHeld         another run works on the pipeline, and this one does not take it over
│   ├── RunStopped           the run was stopped before it had published the batch; the next one reads it again
│   ├── TransformChanged     a file that the transform imports has changed; the next run, with it, reads the batch again
│   ├── BrokerAway           Kafka did not answer within the limit
│   ├── RegistryAway         the schema registry did not answer within the limit
│   ├── LedgerAway           Postgres did not answer within the limit, or cannot serve the request at the moment
│   ├── SparkAway            Spark lost the job: an executor, the session or its files are gone
│   ├── OffsetsUnavailable   the broker does not have the requested offsets; the next run finds out why
│   ├── MessageUnreadable    the log has something that the Kafka client cannot read
│   ├── LogTruncated         the log was truncated, then appended to; the pipeline halts or the batch is planned again
│   ├── MessageMisplaced     the Kafka client returned a message outside the range; it is read again
│   ├── StagingLost          staged rows or coverage are missing or disagree; the same ranges are read again
│   ├── NotReproduced        a failure could not be reproduced; the same ranges are read again
│   ├── MessagesSuspected    some messages fail in the transform; dead letters if they still do after a while
│   ├── TransactionAborted   a producer's transaction was aborted, and none of it is read; it can be sent again
│   ├── ChangedMeanwhile     what a person was shown, or what this depends on, has changed; review it again
│   └── OutcomeUnknown       the connection died in COMMIT and its outcome could not be read; the ledger has it
├── RowRefused               a table rejects a row; the message becomes a dead letter of stage `publish`
├── TransformFailed          a Spark job fails in the transform; the message at fault becomes a dead letter
├── BatchRejected            the batch cannot be published as it is; the same offsets are tried again after a back-off
│   ├── GateFailed           a blocking check failed
│   ├── TransformBroken      the transform, or what it calls, fails on every message that it is tried on
│   ├── TooManyRefused       more messages fail in the transform or the table than are isolated
│   └── BatchTooSlow         its Spark job was still running after the time limit, and was cancelled
├── NotDelivered             Kafka did not acknowledge a message; the error says whether it may be in the log
├── UnsentLost               messages that were not delivered could not be kept, neither in Postgres nor in a file
├── ProducerBroken           a producer cannot go on; a new one resolves what it left open
│   └── ProducerFenced       a newer producer with the same transactional.id took over
├── InternalError            a mistake of Tidegate's own; nothing was lost, and it is tried again after a back-off
├── Halt                     continuing would lose or repeat data: a person decides (platform_defs/errors/halts.py)
└── BadInput                 a user's contract, transform, setting or argument cannot be used
    ├── SeveralMistakes      a file has more than one mistake; it lists all of them
    ├── AccessDenied         a system rejects this user's login, or denies it a right
    ├── TopicMissing         Kafka has no topic of the contract's name
    ├── SchemasNotGiven      messages name schemas that the registry does not return, although it is up
    ├── OtherCluster         a task reached another cluster than the one that the batch was planned on
    ├── OtherInstall         a task runs on a machine with another installation of Tidegate
    ├── LedgerMissing        the database has no ledger yet
    ├── LedgerOutdated       the ledger is older than this version of Tidegate; `tidegate migrate`
    └── LedgerTooNew         the ledger is newer than this version of Tidegate; upgrade it

`str(error)` is a sentence for people; its data for programs is in attributes. All of them can be pickled, and
`to_json` and `from_json` carry them from a Spark task to the driver. The consequence of each:
platform_defs/errors/error_policy.py.
"""

from collections.abc import Mapping
from typing import Any

from platform_defs.errors.bad_input import (
    AccessDenied,
    BadInput,
    LedgerMissing,
    LedgerOutdated,
    LedgerTooNew,
    Mistake,
    OtherCluster,
    OtherInstall,
    SeveralMistakes,
    TopicMissing,
)
from platform_defs.errors.batches import (
    BatchRejected,
    BatchTooSlow,
    GateFailed,
    Halt,
    InternalError,
    RowRefused,
    TooManyRefused,
    TransformBroken,
    TransformFailed,
)
from platform_defs.errors.producing import NotDelivered, ProducerBroken, ProducerFenced, TransactionAborted, UnsentLost
from platform_defs.errors.registry import RegistryAway, SchemasNotGiven
from platform_defs.errors.retryable import (
    BrokerAway,
    ChangedMeanwhile,
    Fenced,
    LedgerAway,
    LogTruncated,
    MessageMisplaced,
    MessagesSuspected,
    MessageUnreadable,
    NotReproduced,
    OffsetsUnavailable,
    OutcomeUnknown,
    PipelineHeld,
    Retryable,
    RunStopped,
    SparkAway,
    StagingLost,
    TransformChanged,
)
from platform_defs.errors.root import TidegateError, restore

__all__ = [
    "AccessDenied",
    "BadInput",
    "BatchRejected",
    "BatchTooSlow",
    "BrokerAway",
    "ChangedMeanwhile",
    "Fenced",
    "GateFailed",
    "Halt",
    "InternalError",
    "LedgerAway",
    "LedgerMissing",
    "LedgerOutdated",
    "LedgerTooNew",
    "LogTruncated",
    "MessageMisplaced",
    "MessageUnreadable",
    "MessagesSuspected",
    "Mistake",
    "NotDelivered",
    "NotReproduced",
    "OffsetsUnavailable",
    "OtherCluster",
    "OtherInstall",
    "OutcomeUnknown",
    "PipelineHeld",
    "ProducerBroken",
    "ProducerFenced",
    "RegistryAway",
    "Retryable",
    "RowRefused",
    "RunStopped",
    "SchemasNotGiven",
    "SeveralMistakes",
    "SparkAway",
    "StagingLost",
    "TidegateError",
    "TooManyRefused",
    "TopicMissing",
    "TransactionAborted",
    "TransformBroken",
    "TransformChanged",
    "TransformFailed",
    "UnsentLost",
    "from_json",
]


def from_json(stored: Mapping[str, Any]) -> TidegateError:
    """Return the error that `to_json` wrote. One that this version does not know becomes an InternalError."""
    kind = globals().get(stored["class"])
    if isinstance(kind, type) and issubclass(kind, TidegateError):
        return restore(kind, tuple(stored["args"]), stored["attributes"])
    return InternalError.of("a task", f"{stored['class']}: {' '.join(map(str, stored['args']))}")
