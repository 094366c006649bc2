"""`tidegate send`: messages written by a user, checked against the contract before they are sent."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from platform_defs.cli.options import PresetOption, TopicOrPipelineArgument
from platform_defs.cli.output import Output, OutputOption

if TYPE_CHECKING:
    from platform_defs.messages.lines import Lines

STANDARD_INPUT = "-"


def send(
    destination: TopicOrPipelineArgument,
    value: list[str] = typer.Argument(
        None, metavar="[VALUE]...", help="One message each; - reads standard input.", show_default=False
    ),
    file: Path | None = typer.Option(
        None, "--file", "-f", help="A file with one message per line.", show_default=False
    ),
    key: str | None = typer.Option(None, "--key", "-k", help="The key of each message.", show_default=False),
    header: list[str] = typer.Option(
        [],
        "--header",
        "-H",
        metavar="NAME=VALUE",
        help="A header of each message; may be repeated.",
        show_default="none",
    ),
    partition: int | None = typer.Option(
        None, "--partition", "-p", min=0, help="The partition to send to.", show_default="by the partitioner"
    ),
    preset: PresetOption = None,
    null: bool = typer.Option(False, "--null", help="Send a tombstone: a message with a key and no value."),
    unchecked: bool = typer.Option(
        False, "--unchecked", help="Send the bytes as they are, without checking them against the contract."
    ),
    ids: bool = typer.Option(
        True, help="Add the header tidegate-id to each message, so that unsent send can find it. Only with a contract."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Send your own messages, and report the partition and offset of each.

    A value is a JSON document. If a contract reads the topic, the document is
    encoded in the contract's format (Avro and Protobuf with the schema
    registered under its subject) and checked against the contract. A message
    that would be a dead letter is refused, with the reason. All arguments, or
    all lines of a file, are checked before the first is sent; standard input
    is checked and sent as it arrives. Without a contract, or with --unchecked,
    bytes are sent as they are. The contract's partitioner, keyed-crc32 by
    default, chooses the partition of a key. Without a contract, keyed does:
    the default of Kafka's Java client. The command never creates a topic. The
    command stops at the first message that Kafka does not acknowledge, with
    exit code 1; with a contract, messages that were not delivered are kept for
    tidegate unsent send.

    \b
    JSON:
      topic, pipeline (null: no contract reads the topic), preset, partitioner
      checked   whether messages were checked against the contract
      messages  a list: value (its number, from 1), partition, offset (null
                with acks=0), timestamp, error (null, or why it was not
                acknowledged)
      sent      messages acknowledged (with acks=0: written to the socket)
      failed    messages not acknowledged
      refused   value, error_class, reason of the line of standard input at
                which it stopped; else null
      unsent    messages that are kept for tidegate unsent send
    """
    from platform_defs.messages.cli.send_answer import Answer, print_end
    from platform_defs.messages.lines import Lines
    from platform_defs.messages.prepare_send import Request, prepare
    from platform_defs.messages.send import Sending
    from platform_defs.settings.contracts import read_contracts

    if null and (value or file is not None):
        raise typer.BadParameter("--null sends a message without a value: leave out VALUE and --file")
    if null and key is None:
        raise typer.BadParameter("--null requires --key: a tombstone deletes the row with that key")
    request = Request(
        name=destination,
        lines=Lines([""]) if null else _lines(value or [], file),
        key=None if key is None else os.fsencode(key),
        headers=tuple(_header(text) for text in header),
        partition=partition,
        preset=preset,
        null=null,
        unchecked=unchecked,
        ids=ids,
    )
    prepared = prepare(request, read_contracts())
    answer = Answer(output, prepared)
    sending = Sending(answer.add)
    try:
        prepared.run(sending)
    finally:
        print_end(answer, sending)
    if sending.failed or sending.refused:
        raise typer.Exit(1)


def _lines(values: list[str], file: Path | None) -> Lines:
    from platform_defs.messages.lines import Lines

    if file is not None and values:
        raise typer.BadParameter("use either VALUE or --file, not both")
    if file is not None and str(file) != STANDARD_INPUT:
        return Lines(file)
    if STANDARD_INPUT in values and len(values) > 1:
        raise typer.BadParameter("- means standard input and must be the only VALUE")
    if values and values != [STANDARD_INPUT]:
        return Lines(values)
    if not values and file is None and sys.stdin.isatty():
        raise typer.BadParameter("add a VALUE, --file, or - to type lines")
    return Lines(sys.stdin.buffer)


def _header(text: str) -> tuple[str, bytes]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"--header is NAME=VALUE, such as trace=abc, not {text!r}")
    return name, os.fsencode(value)
