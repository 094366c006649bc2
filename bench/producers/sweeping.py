"""Rounds of a producer with one varied option: a topic of one partition on three brokers, and a stream to it."""

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, groupby
from pathlib import Path

from confluent_kafka import KafkaException

from bench.producers.journal import FAILED, KEYS
from bench.producers.journal_check import latencies, quantile, throughput
from bench.producers.measure import BREAKS, Progress, interrupted, reason_of, three_brokers
from bench.producers.sending import SIZE, Pace, Stream
from bench.producers.statistics import ProducerStatistics
from bench.producers.sweeps import STEADY, Setting, SweepRound, Swept, sweep_of
from bench.producers.three_brokers import NUMBERS, ThreeBrokers
from bench.producers.topic import Topic
from platform_defs.producer_options.presets import PRESETS

SHARE = 5  # messages of a round at full load for each one of a steady round


@dataclass(frozen=True)
class Unmeasured:
    """A setting that could not be measured, and why."""

    vary: str
    value: str
    load: str
    error: str


def sweep(
    home: Path, settings: Sequence[Setting], rounds: int, messages: int, show: Progress
) -> Generator[Swept | Unmeasured]:
    """Measure each setting, in rounds that take turns, so that a slow minute of the machine affects every value of a
    sweep.

    Yields the settings of a sweep after its last round. Raises BadInput as `three_brokers`.
    """
    turns = count()
    with three_brokers(home, show) as brokers:
        for _, group in groupby(settings, key=lambda setting: setting.vary):
            yield from _sweep(brokers, list(group), rounds, messages, turns, show)


def _sweep(
    brokers: ThreeBrokers, settings: Sequence[Setting], rounds: int, messages: int, turns: "count[int]", show: Progress
) -> Generator[Swept | Unmeasured]:
    found: dict[Setting, list[SweepRound]] = {setting: [] for setting in settings}
    for number in range(1, rounds + 1):
        for setting in list(found):
            show(f"{setting.vary} {setting.value}, {setting.load} load: round {number} of {rounds}")
            try:
                found[setting].append(_round(brokers, setting, messages, next(turns)))
            except (*BREAKS, _MessagesFailed) as error:
                if interrupted(error):
                    raise KeyboardInterrupt from error
                del found[setting]
                yield Unmeasured(setting.vary, str(setting.value), setting.load, reason_of(error))
    for setting, measured in found.items():
        yield sweep_of(setting, measured)


class _MessagesFailed(Exception):
    """Some messages were not acknowledged, so the round does not measure speed."""


def _round(brokers: ThreeBrokers, setting: Setting, messages: int, turn: int) -> SweepRound:
    replicas = [*NUMBERS[turn % len(NUMBERS) :], *NUMBERS[: turn % len(NUMBERS)]]
    topic = Topic(brokers.addresses, f"sweep-{turn}", replicas, {"min.insync.replicas": "2"})
    pace = Pace(messages) if setting.load == "full" else Pace(max(1, messages // SHARE), STEADY)
    statistics = ProducerStatistics(topic.name)
    preset = replace(PRESETS["at_least_once"], options=setting.options)
    stream = Stream({"bootstrap.servers": brokers.addresses}, preset, topic.name, pace, statistics=statistics)
    try:
        stream.start()
        journal = stream.end()
    except BaseException:
        stream.leave()
        raise
    finally:
        with suppress(KafkaException, TimeoutError):  # its data is deleted with the brokers'
            topic.delete()
    if failed := journal.count[FAILED]:
        raise _MessagesFailed(f"{failed:,} of {journal.total:,} messages were not acknowledged")
    waited = latencies(journal)
    return SweepRound(
        messages=journal.total,
        messages_per_second=throughput(journal),
        p50_ms=quantile(waited, 0.5),
        p99_ms=quantile(waited, 0.99),
        batches=statistics.batches,
        batch_bytes=statistics.batch_bytes,
        wire_bytes=statistics.wire_bytes,
        message_bytes=sum(SIZE + len(b"%d" % (number % KEYS)) for number in range(journal.total)),
    )
