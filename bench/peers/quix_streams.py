"""Quix Streams with its PostgreSQL sink, in its own environment; one process.

Its documented ways to write faster: large checkpoints (commit_every, commit_interval), since the sink writes once a
checkpoint; a longer queue of librdkafka; no columns of metadata; and an existing table. Its argument: a folder for its
files.
"""

import sys
import time
from functools import partial
from urllib.parse import urlsplit

from bench.peers.asked import Task, answer_each

CHECKPOINT = 100_000  # messages


def carry(folder: str, task: Task) -> None:
    """Carry the topic from its beginning, with a new consumer group."""
    from quixstreams import Application  # pyright: ignore[reportMissingImports]  # of that environment
    from quixstreams.sinks.community.postgresql import PostgreSQLSink  # pyright: ignore[reportMissingImports]

    application = Application(
        broker_address=task["brokers"],
        consumer_group=f"bench-quix-{time.time_ns()}",
        auto_offset_reset="earliest",
        commit_every=CHECKPOINT,
        commit_interval=60,
        loglevel="WARNING",
        state_dir=folder,
        consumer_extra_config={"queued.min.messages": 200_000, "fetch.queue.backoff.ms": 5},
    )
    database = urlsplit(task["postgres_url"])
    sink = PostgreSQLSink(
        host=database.hostname,
        port=database.port,
        dbname=database.path.lstrip("/"),
        user=database.username,
        password=database.password or "",
        table_name=task["table"],
        schema_name="bench",
        schema_auto_update=False,
        include_metadata=False,
    )
    frame = application.dataframe(application.topic(task["topic"], value_deserializer="json"))
    frame.sink(sink)
    application.run(count=task["messages"], timeout=60, collect=False)


if __name__ == "__main__":
    answer_each(partial(carry, sys.argv[1]))
