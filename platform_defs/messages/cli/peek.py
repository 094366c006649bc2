"""`tidegate peek`: messages of a topic, without a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from platform_defs.cli.options import PartitionsOption, TopicOrPipelineArgument
from platform_defs.cli.output import Output, OutputOption, print_error

if TYPE_CHECKING:
    from platform_defs.messages.peek import Start

LIMIT = 20  # messages, if neither --limit, --last nor --follow is given


def peek(
    source: TopicOrPipelineArgument,
    partition: PartitionsOption = None,
    offset: int | None = typer.Option(None, min=0, help="Start at this offset in each partition."),
    at: str | None = typer.Option(
        None, metavar="TIME", help="Start at the first message at or after this time, such as 2026-11-01T10:00Z."
    ),
    last: int | None = typer.Option(None, min=1, help="Start this many messages before the end of each partition."),
    limit: int | None = typer.Option(
        None, min=1, help="Show at most this many messages.", show_default=f"{LIMIT}; all with --last or --follow"
    ),
    key: str | None = typer.Option(None, help="Only messages with this key."),
    where: str | None = typer.Option(
        None, metavar="EXPR", help='Only messages for which this SQL expression is true: "amount > 100".'
    ),
    follow: bool = typer.Option(
        False, "--follow", help="Keep printing new messages until Ctrl-C; without a start, print only new ones."
    ),
    raw: bool = typer.Option(False, "--raw", help="Show keys and values as bytes, without decoding them."),
    output: OutputOption = Output.human,
) -> None:
    """Show messages from a topic, decoded and checked against its contract.

    It starts at the first message of each partition. It joins no consumer
    group, commits no offset and writes nothing. Messages of open and aborted
    transactions are not shown. A message that would be a dead letter is shown
    with the reason and its first bytes. A topic without a contract is shown as
    bytes. If several contracts read it, name a pipeline. Classified fields are
    masked, and so are keys, header values and raw bytes.

    --where takes a DuckDB SQL expression over the contract's fields and _key,
    _partition, _offset, _timestamp, _size (bytes of the value) and _error (the
    class of a dead letter); without a contract, _value as text.

    \b
    JSON (with --follow: a line for each message, as in messages):
      topic, pipeline  null without a contract
      format      json, avro, protobuf or raw
      hidden      whether key, header values and bytes are masked
      read        how many messages were read
      messages    partition, offset
        timestamp_ms, timestamp_type  null, or CreateTime or LogAppendTime
        key       null, or base64, bytes (the length) and, if it can be
                  decoded, text
        headers   name, value (as key)
        tombstone    whether it has no value
        fields       null, or the contract's fields
        value        null, or as key; for a decoded message, only its length
        dead_letter  null, or stage, error_class, error_message, field
        other_record  whether its record is one that the contract skips
    """
    from platform_defs.errors import TopicMissing
    from platform_defs.messages.chosen_topic import choose_topic
    from platform_defs.messages.cli.peek_answer import print_all, print_each
    from platform_defs.messages.peek import Peek, filter_of
    from platform_defs.settings.contracts import read_contracts
    from platform_defs.stack.endpoints import kafka_alone
    from platform_defs.topics.destination import missing

    start = _start(offset, at, last)
    contracts = read_contracts()
    chosen = choose_topic(source, contracts, raw=raw)
    options = kafka_alone()
    selected = filter_of(chosen, options, key, where, print_error)
    bounded = limit or (None if last is not None or follow else LIMIT)
    found = Peek(
        options=options,
        selected=selected,
        start=start,
        note=print_error,
        partitions=tuple(partition or ()),
        limit=bounded,
    )
    try:
        if follow:
            print_each(found, output)
        else:
            print_all(found, output)
    except TopicMissing as error:
        raise missing(chosen.topic, contracts) from error


def _start(offset: int | None, at: str | None, last: int | None) -> Start:
    """Return the start. Raises typer.BadParameter for more than one start, and for a time that is not ISO 8601."""
    from platform_defs.messages.peek import Start
    from platform_defs.times import EXAMPLE, parse_time

    if sum(one is not None for one in (offset, at, last)) > 1:
        raise typer.BadParameter("use only one of --offset, --at and --last")
    if at is None:
        return Start(offset=offset, last=last)
    if (time := parse_time(at, "--at")) is None:
        raise typer.BadParameter(f"--at {at} is not a time in ISO 8601, such as {EXAMPLE}")
    return Start(at_ms=int(time.timestamp() * 1000))
