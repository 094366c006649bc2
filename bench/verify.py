"""The speed of `tidegate verify`: messages per second of the whole comparison, for three kinds of pipelines.

    python -m bench.verify [MESSAGES] [ROUNDS]

Fills two topics, lets the engine carry them into tables, and compares these with their topics, again and again; the
first round is cold and not counted. Starts the stack if it is not running, and stops it at the end. Prints a Markdown
table for docs/explanation/performance.md.
"""

import os
import platform
import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from bench.ending import ended_by_signals, say, stack_up
from bench.paths import moved
from bench.reports.aims import Figure, Result
from bench.transfers import Message, as_json, send, transfers
from platform_defs.contract.model.contract import Column
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import drain
from platform_defs.runs.open_run import open_run
from platform_defs.settings.contracts import find_pipeline
from platform_defs.spark.session import spark_config, start_session
from platform_defs.stack.endpoints import Endpoints, connection
from platform_defs.verify.compare.report import Report
from platform_defs.verify.verify import verify

PARTITIONS = 4
AIM = 100_000  # messages a second, for bank.transfers
KEYS = 10  # the upsert's topic has a key for every so many messages
BANK = "bank.transfers: append through a PySpark transform (two rows a message), and balances"


@dataclass(frozen=True)
class Verified:
    """The pipelines that are compared, and their names in the table."""

    bank: Pipeline
    plain: Pipeline
    keyed: Pipeline

    @property
    def all(self) -> dict[str, Pipeline]:
        return {
            BANK: self.bank,
            "append, without a transform": self.plain,
            f"upsert, {KEYS} messages a key": self.keyed,
        }


def pipelines(run: str) -> Verified:
    """Return the pipelines of one run, with `run` in their names."""
    shipped = find_pipeline("bank_transfers")
    contract = replace(shipped.contract, topic=f"bench-{run}")
    columns = tuple(Column(item.name, item.type, item.required) for item in contract.fields)
    rules = tuple(rule for rule in contract.row_table.batch_rules if rule.name != "postings_sum_to_zero")
    row_table = replace(contract.row_table, columns=columns, batch_rules=rules)
    bank = tuple(moved(table, f"bench.{run}_bank_{n}") for n, table in enumerate(contract.tables))
    plain, keyed = moved(row_table, f"bench.{run}_plain"), moved(row_table, f"bench.{run}_keyed")
    upsert = replace(keyed, disposition="upsert", batch_rules=())
    return Verified(
        Pipeline(replace(contract, pipeline=f"{run}_bank", tables=bank), shipped.transform),
        Pipeline(replace(contract, pipeline=f"{run}_plain", tables=(plain,))),
        Pipeline(replace(contract, pipeline=f"{run}_keyed", topic=f"bench-{run}-keyed", tables=(upsert,))),
    )


def fill(options: dict[str, str], made: Verified, messages: int) -> None:
    """Write the same transfers into both topics, in one of them by key."""
    admin = AdminClient({**options})
    topics = [
        NewTopic(made.bank.contract.topic, PARTITIONS, 1),
        NewTopic(made.keyed.contract.topic, PARTITIONS, 1, config={"cleanup.policy": "compact"}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    send(options, _messages(topics[0].topic, topics[1].topic, messages))


def _messages(topic: str, keyed: str, messages: int) -> Iterator[Message]:
    keys = messages // KEYS
    for number, transfer in enumerate(transfers(messages)):
        value, key = as_json(transfer), number % keys
        yield {"topic": topic, "value": value, "partition": number % PARTITIONS}
        yield {"topic": keyed, "value": value, "partition": key % PARTITIONS, "key": f"K{key}".encode()}


def carry(made: Verified, endpoints: Endpoints, spark: SparkSession, messages: int) -> None:
    """Let the engine fill the tables."""
    for name, pipeline in made.all.items():
        say(f"filling tables: {name} ...")
        with open_run(pipeline, endpoints, lambda: spark) as context:
            done = sum(batch.messages for batch in drain(pipeline, context))
        assert done == messages, done


def compared(pipeline: Pipeline, endpoints: Endpoints, spark: SparkSession) -> Report:
    """Return verify's report, which must find no difference."""
    report = verify(pipeline, endpoints, lambda: spark)
    assert report.ok, report
    return report


def result(say: Callable[[str], None], messages: int) -> Result:
    """Return the table of all three, for half as many messages; bank.transfers has an aim."""
    messages = max(KEYS, messages // 2)
    seen = measure(messages, 2, say)
    figure = Figure("verify of bank.transfers, messages a second", statistics.median(seen[BANK]), AIM)
    return Result(report(seen, messages), [figure])


def measure(messages: int, rounds: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Return the messages per second of each round by pipeline."""
    with stack_up(lambda text: say(text)):
        endpoints, made = replace(connection(), registry=None), pipelines(f"v{uuid4().hex[:6]}")
        spark = start_session(spark_config())
        try:
            say(f"filling two topics with {messages:,} messages each ...")
            fill(endpoints.kafka_options(), made, messages)
            carry(made, endpoints, spark, messages)
            return _all_rounds(made, endpoints, spark, rounds)
        finally:
            spark.stop()


def main(messages: int = 1_000_000, rounds: int = 3) -> None:
    with ended_by_signals():
        print(report(measure(messages, rounds, say), messages))


def _all_rounds(made: Verified, endpoints: Endpoints, spark: SparkSession, rounds: int) -> dict[str, list[float]]:
    """Return the messages per second of each round by pipeline."""
    seen: dict[str, list[float]] = {name: [] for name in made.all}
    for number in range(rounds + 1):  # the first round is cold and not counted
        for name, path in {name: partial(compared, one, endpoints, spark) for name, one in made.all.items()}.items():
            found = path()
            speed = found.messages / found.seconds
            say(f"round {number} {'(cold) ' if number == 0 else ''}{name}: {speed:,.0f} messages/s")
            if number:
                seen[name].append(speed)
    return seen


def report(seen: Mapping[str, Sequence[float]], messages: int) -> str:
    """Return the table, in Markdown, of the messages per second of each pipeline in each round."""
    rounds = len(next(iter(seen.values())))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    lines = [
        f"{messages:,} messages of about 180 bytes, {PARTITIONS} partitions; warm, median of {rounds}; "
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, broker and database on "
        f"the same cores. At most {most} MB of memory in this process, Spark's JVM not counted.",
        "",
        "| pipeline | messages/s |",
        "|---|---|",
    ]
    for name, speeds in seen.items():
        lines.append(f"| {name} | {statistics.median(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f}) |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
