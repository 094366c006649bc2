"""The classes of faults that scenarios play: the headings under "Fault by fault" in the guarantees."""

from enum import StrEnum


class FaultClass(StrEnum):
    """A class of faults, as its heading names it (which begins with a capital)."""

    RUN_KILLED = "the run is killed"
    RUN_OVERTAKEN = "the run is stopped, and another starts"
    TWO_RUNS = "two runs at once"
    COMMIT_CUT = "the connection is cut in COMMIT"
    TASK_REPEATED = "Spark repeats a task"
    POSTGRES_DOWN = "Postgres dies, restarts, ends our transaction or has no room"
    POSTGRES_RESTORED = "Postgres is put back to an earlier moment"
    BROKER_DOWN = "a broker dies, or its leadership moves"
    WAY_TO_KAFKA = "the way to Kafka is slow, cut or silent"
    WAY_TO_POSTGRES = "the way to Postgres is slow, cut or silent"
    RECORDS_DELETED = "retention or DeleteRecords passes the position"
    TOPIC_RECREATED = "the topic is created again"
    TOPIC_RENAMED = "the contract names another topic"
    STALE_METADATA = "a broker answers with old metadata"
    OTHER_CLUSTER = "the address leads to another cluster"
    PARTITIONS_ADDED = "partitions are added"
    TRANSACTIONS = "transactions are open, aborted or hang"
    COMPACTION = "the topic compacts"
    BAD_MESSAGES = "a third of the messages is bad"
    ROW_REFUSED = "a table refuses a row"
    TRANSFORM_FAILS = "the transform fails on a message"
    TRANSFORM_READS = "the transform reads twice, not to the end, not at all"
    TABLE_ALTERED = "a table is altered, or belongs to another pipeline"
    GATE_FAILS = "a gate fails"
    CONTRACT_CHANGED = "the contract changes under a planned batch"
    CLOCKS = "clocks jump"
    DAGSTER_KILLED = "Dagster's daemon, web server or run is killed"
    CONSUMER_GROUP = "the consumer group is moved or deleted"
    # Not in the guarantees: what these lose or repeat is what they promise.
    COMPARED = "other ways to deliver, for comparison"
