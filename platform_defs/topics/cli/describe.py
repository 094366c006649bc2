"""`tidegate topics describe`: one topic, from its partitions' leaders to the groups that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from platform_defs.cli.output import (
    Output,
    OutputOption,
    print_error,
    print_fields,
    print_json,
    print_line,
    print_table,
)
from platform_defs.errors.words import plural, span

if TYPE_CHECKING:
    from platform_defs.kafka.descriptions import Setting
    from platform_defs.topics.describe import DescribedPartition, TopicDescription

MAX_SEGMENTS = 20  # shown without --all


def describe(
    topic: str = typer.Argument(metavar="TOPIC|PIPELINE", help="A topic, or the pipeline that reads it."),
    every: bool = typer.Option(False, "--all", help="Show every setting and segment file, Kafka's defaults too."),
    output: OutputOption = Output.human,
) -> None:
    """Show one topic: partitions, files, settings, and what reads it.

    If a broker is down or a right is missing, the affected values are shown as
    unknown, with the reason. Segment files are shown for embedded brokers only.

    \b
    JSON (null: not known):
      topic, topic_id, cluster_id
      partitions, a list:
        partition, leader (null: it has none)
        replicas   broker, in_sync, size (bytes on disk), segments (null, or
                   name and size)
        earliest, latest (the high watermark), last_stable: offsets
        messages   latest minus earliest; compaction and control records leave
                   gaps, so there may be fewer messages
      settings     name, value, source (topic, broker or default)
      contracts    pipeline, file, disposition; problem: null, or why the
                   contract is invalid (it may or may not read the topic)
      groups       group, state, members, lag, partitions (with committed
                   offsets)
      unknown      what could not be checked, as sentences
    """
    from platform_defs.errors import TopicMissing
    from platform_defs.settings.contracts import read_contracts
    from platform_defs.stack.endpoints import kafka_alone
    from platform_defs.topics.describe import TopicLook
    from platform_defs.topics.destination import missing

    contracts = read_contracts()
    name = next((one.topic for one in contracts.good if one.pipeline == topic), topic)
    if called := next((item for item in contracts.broken if name == topic and item.is_called(name)), None):
        raise called.error
    try:
        found = TopicLook(kafka_alone(), name).describe(contracts)
    except TopicMissing as error:
        raise missing(name, contracts) from error
    if output is Output.json:
        print_json(found.to_json())
        return
    print_fields({"topic": found.topic, "id": found.topic_id, "cluster": found.cluster_id})
    print_line("")
    heads = ["partition", "leader", "replicas", "in sync", "earliest", "latest", "messages", "bytes (leader)"]
    print_table(heads, [_row(one) for one in found.partitions])
    _print_segments(found, every=every)
    _print_settings(found, every=every)
    _print_readers(found)
    for sentence in found.unknown:
        print_error(f"unknown: {sentence}")


def _row(one: DescribedPartition) -> tuple[object, ...]:
    """Return a row of the table of partitions; a dash is unknown."""
    held = one.held
    offsets = (None, None, None) if held is None else (held.low, held.written, one.messages)
    size = next((replica.size for replica in one.replicas if replica.broker == one.leader), None)
    numbers = [None if number is None else f"{number:,}" for number in (*offsets, size)]
    replicas = ",".join(str(replica.broker) for replica in one.replicas)
    in_sync = ",".join(str(replica.broker) for replica in one.replicas if replica.in_sync)
    return (one.number, one.leader, replicas, in_sync, *numbers)


def _print_segments(found: TopicDescription, *, every: bool) -> None:
    rows = [
        (one.number, replica.broker, segment.name, f"{segment.size:,}")
        for one in found.partitions
        for replica in one.replicas
        for segment in replica.segments or ()
    ]
    if rows:
        print_line("")
        print_table(["partition", "broker", "segment", "bytes"], rows if every else rows[:MAX_SEGMENTS])
    if len(rows) > MAX_SEGMENTS and not every:
        print_line(f"and {plural(len(rows) - MAX_SEGMENTS, 'more segment file')} (--all)")


def _print_settings(found: TopicDescription, *, every: bool) -> None:
    settings = [one for one in found.settings or () if one.shown or every]
    if settings:
        print_line("")
        print_table(["setting", "value", "from"], [(one.name, _value(one), one.source) for one in settings])
    left = len(found.settings or ()) - len(settings)
    if left:
        print_line(f"and {plural(left, 'setting')} with Kafka's default value (show them with --all)")


def _value(setting: Setting) -> str | None:
    """Return the value as Kafka has it, followed by a time in days or hours."""
    if setting.name == "retention.ms" and setting.value == "-1":
        return "-1 (unlimited)"
    is_time = setting.name.endswith(".ms") and (setting.value or "").isdecimal()
    return f"{setting.value} ({span(int(setting.value or 0))})" if is_time else setting.value


def _print_readers(found: TopicDescription) -> None:
    print_line("")
    if found.contracts:
        rows = [(one.pipeline, one.disposition or "broken", one.file) for one in found.contracts]
        print_table(["contract", "disposition", "file"], rows)
    else:
        print_line("No contract reads it.")
    for one in found.contracts:
        if one.problem:
            print_error(one.problem)
    if found.groups is not None:
        print_line("")
    if found.groups:
        rows = [(one.group, one.state, one.members, one.partitions, one.lag) for one in found.groups]
        print_table(["group", "state", "members", "partitions", "lag"], rows)
    elif found.groups is not None:
        print_line("No consumer group reads it.")
