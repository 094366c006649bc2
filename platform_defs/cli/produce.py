"""`tidegate produce`: made-up messages of a pipeline's contract, with a known number of bad ones."""

import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import typer
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, progress
from platform_defs.contract.model import Contract
from platform_defs.errors import BadInput, BrokerAway
from platform_defs.samples.samples import Sample, Samples

app = typer.Typer(add_completion=False)

ONE_BAD_IN = 10_000  # where --count is given and nothing is said about bad ones
TICK = 0.05  # seconds between bursts of --rate
BATCH = 1_000  # messages handed to the producer at once


@app.command()
def produce(
    pipeline: str = typer.Argument(help="Such as bank_transfers."),
    count: int | None = typer.Option(
        None, min=1, help="How many messages.", show_default="1000, or endless with --rate"
    ),
    rate: float | None = typer.Option(None, min=0.1, help="Messages a second, until Ctrl-C or --seconds."),
    seconds: float | None = typer.Option(None, min=0, help="With --rate: for how long."),
    bad: int | None = typer.Option(
        None, min=0, help="How many bad ones.", show_default="1 in 10,000; with --rate none"
    ),
    bad_share: float | None = typer.Option(None, min=0, max=1, help="Which share is bad."),
    seed: int | None = typer.Option(None, help="The same messages each time, but for ids and times."),
    partitions: int = typer.Option(4, min=1, help="Of the topic, if it has to be created."),
    output: OutputOption = Output.human,
) -> None:
    """Send made-up messages, and tell which dead letters are to be expected of them."""
    from assets import find_pipeline
    from resources.endpoints import connection

    if bad is not None and bad_share is not None:
        raise typer.BadParameter("give --bad or --bad-share, not both")
    if seconds is not None and rate is None:
        raise typer.BadParameter("--seconds goes with --rate")
    total = count if count or rate else 1_000
    if bad is not None and total is not None and bad > total:
        raise typer.BadParameter(f"--bad {bad} is more than the {total} messages there are")
    if bad is not None and total is None:
        raise typer.BadParameter("--bad needs --count; with --rate alone give --bad-share")
    contract, endpoints = find_pipeline(pipeline).contract, connection()
    share = bad_share if bad_share is not None else _share(bad, total)
    spread = _Spread(Samples(contract, seed), share)
    options = endpoints.kafka_options()
    sender = Sender(options, contract, topic_partitions(options, contract, partitions))
    with progress() as show:
        _run(sender, spread, total, rate, seconds, show)
    answer = sender.report()
    if output is Output.json:
        print_json(answer)
    else:
        print_line(f"{answer['produced']} messages to {contract.topic}, {answer['messages_per_second']} a second")
        print_fields({"good": answer["good"], "tombstones": answer["tombstones"], **answer["bad"]})


def _share(bad: int | None, total: int | None) -> float:
    if total is None:
        return 0.0
    return (total // ONE_BAD_IN if bad is None else bad) / total


class _Spread:
    """Good messages with the bad ones spread evenly among them, their kinds in turn."""

    def __init__(self, samples: Samples, share: float) -> None:
        self._samples, self._share = samples, share
        self._seen = self._bad = 0

    def take(self, count: int) -> Iterator[Sample]:
        for sample in self._samples.good(count):
            self._seen += 1
            if self._bad < round(self._seen * self._share):
                self._bad += 1
                yield self._samples.bad(self._bad - 1, sample)
            else:
                yield sample


@dataclass
class Sender:
    """Sends messages, acknowledged by all replicas and without repetition, and counts them."""

    options: dict[str, Any]
    contract: Contract
    partitions: int
    produced: int = 0
    tombstones: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    by_partition: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started = self._ended = time.monotonic()
        self._producer = Producer(
            {
                **self.options,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "compression.type": "lz4",
                "delivery.report.only.error": True,
                "on_delivery": self._failed,
                "queue.buffering.max.messages": 500_000,
                "message.timeout.ms": 60_000,
                "log_level": 3,
            }
        )

    def send(self, samples: Iterator[Sample]) -> None:
        """Hand `samples` to the producer; a full queue is waited for."""
        while batch := list(islice(samples, BATCH)):
            by_partition: dict[int, list[dict[str, Any]]] = {}
            for sample in batch:
                by_partition.setdefault(self._count(sample), []).append({"value": sample.value, "key": sample.key})
            for partition, messages in by_partition.items():
                self._send(partition, messages)

    def _send(self, partition: int, messages: list[dict[str, Any]]) -> None:
        while messages:
            self._producer.produce_batch(self.contract.topic, messages, partition=partition)
            messages = [{"value": item["value"], "key": item["key"]} for item in messages if "_error" in item]
            self._producer.poll(0.1 if messages else 0)  # a full queue
            self._check()

    def finish(self) -> None:
        """Wait until everything is acknowledged. Raises BrokerAway when it is not."""
        left = self._producer.flush(60)
        self._ended = time.monotonic()
        self._check()
        if left:
            raise BrokerAway(f"{left} messages to {self.contract.topic} were not acknowledged within 60 s")

    def report(self) -> dict[str, Any]:
        """What was sent, by kind and partition."""
        seconds = self._ended - self._started
        wrong = sum(self.bad.values())
        return {
            "pipeline": self.contract.pipeline,
            "topic": self.contract.topic,
            "produced": self.produced,
            "good": self.produced - wrong - self.tombstones,
            "tombstones": self.tombstones,
            "bad": dict(self.bad),
            "partitions": {str(number): n for number, n in sorted(self.by_partition.items())},
            "seconds": round(seconds, 3),
            "messages_per_second": round(self.produced / max(seconds, 1e-9)),
        }

    def _count(self, sample: Sample) -> int:
        """Count a message about to be sent; the partition it goes to."""
        partition = (self.produced if sample.key is None else zlib.crc32(sample.key)) % self.partitions
        self.produced += 1
        self.by_partition[partition] += 1
        if sample.reason is not None:
            self.bad[sample.reason] += 1
        elif sample.value is None:
            self.tombstones += 1
        return partition

    def _failed(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self.errors.append(error.str())

    def _check(self) -> None:
        if self.errors:
            raise BrokerAway(f"{len(self.errors)} messages to {self.contract.topic} were not taken: {self.errors[0]}")


def topic_partitions(options: dict[str, Any], contract: Contract, wanted: int) -> int:
    """How many partitions the topic has; it is created where it is missing. Raises BrokerAway."""
    admin = AdminClient(options)
    try:
        if (found := admin.list_topics(timeout=10).topics.get(contract.topic)) is not None:
            return len(found.partitions)
        policy = {"cleanup.policy": "compact"} if contract.row_table.disposition == "upsert" else {}
        created = admin.create_topics([NewTopic(contract.topic, wanted, config=policy)])
        created[contract.topic].result(timeout=20)
        return wanted
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return topic_partitions(options, contract, wanted)
        if reason.code() in (KafkaError.TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            raise BadInput(f"topic {contract.topic} cannot be created: {reason.str()}") from error
        raise BrokerAway(f"Kafka did not answer: {reason.str()}") from error


def _run(
    sender: Sender,
    spread: _Spread,
    total: int | None,
    rate: float | None,
    seconds: float | None,
    show: Callable[[str], None],
) -> None:
    if rate is None:
        for done in range(0, total or 0, 50_000):
            sender.send(spread.take(min(50_000, (total or 0) - done)))
            show(f"{sender.produced} of {total} messages sent")
    else:
        _paced(sender, spread, total, rate, seconds, show)
    sender.finish()


def _paced(
    sender: Sender, spread: _Spread, total: int | None, rate: float, seconds: float | None, show: Callable[[str], None]
) -> None:
    """Send `rate` messages a second until the time or the messages are over, or a signal asks to stop."""
    stopped: list[int] = []
    earlier = {number: signal.signal(number, lambda got, _: stopped.append(got)) for number in _SIGNALS}
    started, told = time.monotonic(), 0.0
    try:
        while not stopped:
            elapsed = time.monotonic() - started
            due = int(rate * min(elapsed, seconds if seconds is not None else elapsed))
            due = due if total is None else min(due, total)
            sender.send(spread.take(due - sender.produced))
            if (seconds is not None and elapsed >= seconds) or due == total:
                return
            if elapsed - told >= 5:
                show(f"{sender.produced} messages sent")
                told = elapsed
            time.sleep(TICK)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
