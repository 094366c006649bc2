"""`tidegate groups`: consumer groups and how far each has read; watched, reset and deleted."""

from __future__ import annotations

import shlex
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from platform_defs.cli.options import ExecuteOption, ExpectOption, PartitionsOption
from platform_defs.cli.output import Output, OutputOption, print_answer, print_error, print_json_line, print_line
from platform_defs.cli.proposals import refuse_unexpected

if TYPE_CHECKING:
    from platform_defs.groups.child import KafkaGroups
    from platform_defs.groups.groups import Groups

app = typer.Typer(no_args_is_help=True, add_completion=False)

WATCHED = 3.0  # seconds for each request of a watch: Ctrl-C waits for an answer in progress
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The name of a consumer group.")]


@app.command("list")
def list_(output: OutputOption = Output.human) -> None:
    """List the groups: state, members, topics and lag.

    Kafka lists only groups that this user may describe; if groups may be
    missing, the command names the missing right. Groups of other protocols
    (share, streams, Kafka Connect) are listed by name, protocol and state. The
    group of a pipeline only shows the pipeline's progress to Kafka's tools:
    the position that counts is in the ledger (tidegate lag).

    \b
    JSON: incomplete (what may be missing, as sentences) and groups, a list:
      group
      type      classic or consumer (KIP-848); else the protocol: share,
                streams, connect
      state     Stable, Empty, PreparingRebalance, CompletingRebalance,
                Assigning, Reconciling or Unknown
      members   how many; null: not known, or of another protocol
      idle      how many of them have no partition
      topics    in which it has committed offsets or assigned partitions
      lag       unread messages; null: nothing is committed, or not known
      past_retention  in how many partitions it lags past retention
      pipeline  the pipeline whose progress it shows, or null
      problem   why members or offsets are not known, or null
    """
    from platform_defs.groups.answer import listed_json, print_list

    found = _groups().list_all()
    document = {"incomplete": found.incomplete, "groups": [listed_json(one) for one in found.groups]}
    print_answer(document, lambda: print_list(found), output)


@app.command()
def describe(group: GroupArgument, output: OutputOption = Output.human) -> None:
    """Show a group: members, their partitions, and the lag of each partition.

    The lag in seconds is the time since the timestamp of the first unread
    message, which is read without joining the group (ACL Read on the topic).
    A group whose committed offset is below the log start lags past retention:
    messages were deleted that it has not read.

    \b
    JSON:
      group, type, state, pipeline  as tidegate groups list
      assignor, coordinator (broker id), coordinator_address
      members     member_id, client_id, host, instance_id, partitions (topic,
                  partition)
      idle        member ids without a partition; empty during a rebalance
      partitions  topic, partition, member_id (null: none),
                  committed (null: none), log_start, end,
                  lag (offsets), lag_seconds (null: not known, or the message
                  is deleted), expired (unread offsets below the log start),
                  note (what is wrong, or null)
      lag         of all partitions
      problems    what is not known, and why
    """
    from platform_defs.groups.answer import described_json, print_described

    found = _groups().describe(group)
    print_answer(described_json(found), lambda: print_described(found), output)


@app.command()
def watch(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="A group; it need not exist yet.", show_default="all")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="How long to watch, in seconds.", show_default="until Ctrl-C")
    ] = None,
    output: OutputOption = Output.human,
) -> None:
    """Print joins, leaves, assignments and states as they change, until Ctrl-C.

    The command polls Kafka twice a second for one group, and once a second for
    all; it does not see changes that are undone between two polls. While no
    broker answers, it reports this once and keeps trying. Ctrl-C ends it with
    exit code 0.

    \b
    JSON: not one document, but a line of JSON for each event:
      at        time, UTC
      event     group (as it is at first) or absent (it does not exist yet);
                created, deleted, joined, left, state, assignment;
                away (no broker answers) and back
      group     null for away and back
      type, state      for group, created and state
      before           for state: the previous state
      members          for group: as in tidegate groups describe
      member_id, client_id, host, instance_id, partitions (what it has now),
      gained, lost     for joined, left and assignment
      reason           for away
    """
    from platform_defs.cli.signals import until_signal
    from platform_defs.groups.events import Watch

    if output is Output.human:
        print_error(f"Watching {group or 'all groups'}. Ctrl-C ends it.")
    watched, started = Watch(_client(WATCHED), group), time.monotonic()
    with until_signal() as received:

        def stopped() -> bool:
            return bool(received) or (seconds is not None and time.monotonic() - started >= seconds)

        for event in watched.events(stopped):
            now = datetime.now(UTC)
            if output is Output.json:
                print_json_line({"at": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z", **event.to_json()})
            else:
                name = f"{event.group.name}  " if event.group else ""
                print_line(f"{now:%Y-%m-%dT%H:%M:%SZ}  {name}{event}")


@app.command()
def reset(
    group: GroupArgument,
    to: Annotated[
        str, typer.Option(metavar="TARGET", help="earliest, latest, an offset, or a time: 2026-11-21T10:00:00Z.")
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="A topic; may be repeated.", show_default="the group's only one"),
    ] = None,
    partition: PartitionsOption = None,
    execute: ExecuteOption = False,
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Move a group's committed offsets; without --execute, show the changes.

    The command refuses a group with members, since they would overwrite the
    offsets, and it refuses offsets outside the log. With a time, the group
    resumes at the first message with that timestamp or a later one, or at the
    end of the log if there is none. A group that shows a pipeline's progress
    is refused as well: use tidegate replay.

    \b
    JSON:
      group
      changes      topic, partition, current (null: none is committed), new,
                   skipped and read_again (offsets; null without current),
                   log_start, end
      fingerprint  for --expect
      executed     true if the offsets were moved
    """
    from platform_defs.groups.answer import print_reset, reset_json
    from platform_defs.groups.reset import Target

    groups = _groups()
    found = groups.propose_reset(group, topic or [], partition or [], Target.parse(to))
    words = [
        group,
        *(f"--topic={one}" for one in found.topics),
        *(f"--partition={one}" for one in partition or []),
        f"--to={to}",
    ]
    command = f"tidegate groups reset {shlex.join(words)}"
    refuse_unexpected(group, expect, found.fingerprint, command)
    if execute:
        groups.reset(found)
    print_answer(reset_json(found, executed=execute), lambda: print_reset(found, command, executed=execute), output)


@app.command()
def delete(
    group: GroupArgument,
    execute: ExecuteOption = False,
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Delete a group; without --execute, show the offsets that would be lost.

    The command refuses a group with members. A consumer that rejoins starts
    according to its auto.offset.reset.

    \b
    JSON:
      group, pipeline
      partitions   topic, partition, committed, end, lag
      fingerprint  for --expect
      executed     true if the group was deleted
    """
    from platform_defs.groups.answer import deletion_json, print_deletion

    groups = _groups()
    found, command = groups.propose_deletion(group), f"tidegate groups delete {shlex.quote(group)}"
    refuse_unexpected(group, expect, found.fingerprint, command)
    if execute:
        groups.delete(found)
    print_answer(
        deletion_json(found, executed=execute), lambda: print_deletion(found, command, executed=execute), output
    )


def _groups() -> Groups:
    from platform_defs.groups.groups import Groups
    from platform_defs.settings.contracts import read_contracts

    contracts = read_contracts()
    return Groups(_client(), {one.pipeline for one in contracts.good} | {one.name for one in contracts.broken})


def _client(timeout: float = 10.0) -> KafkaGroups:
    """Return the client. Kafka is needed, Postgres is not."""
    from platform_defs.groups.child import KafkaGroups
    from platform_defs.stack.endpoints import kafka_alone

    return KafkaGroups(kafka_alone(), timeout)
