"""The answers of `tidegate groups`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any

from platform_defs.cli.output import print_error, print_fields, print_line, print_table
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.groups.groups import Deletion, DescribedGroup, GroupList, GroupProgress, Reset
    from platform_defs.groups.reset import OffsetChange
    from platform_defs.kafka.group_state import GroupPartition

TOPICS = 3  # in a line of the list


def print_list(found: GroupList) -> None:
    """Print a line for each group; then idle members, offsets past retention, and what is missing."""
    heads = ["group", "protocol", "state", "members", "topics", "lag", "pipeline"]
    rows = [
        (
            one.group.name,
            "KIP-848" if one.group.type == "consumer" else one.group.type,
            one.group.state,
            _members(one),
            _some(one.topics),
            one.lag,
            one.pipeline,
        )
        for one in found.groups
    ]
    if rows:
        print_table(heads, rows)
    else:
        print_line("There are no consumer groups that this user may describe.")
    for one in found.groups:
        if one.group.idle_sentence:
            print_line(f"{one.group.name}: {one.group.idle_sentence}")
        if one.expired:
            print_line(
                f"{one.group.name}: lags past retention in {plural(one.expired, 'partition')} "
                f"(tidegate groups describe {quote(one.group.name)})"
            )
        if one.problem:
            print_error(f"{one.group.name}: {one.problem}")
    for sentence in found.incomplete:
        print_error(sentence)


def described_json(found: DescribedGroup) -> dict[str, Any]:
    """Return the answer of `tidegate groups describe -o json`."""
    from platform_defs.groups.events import member_json

    group = found.progress.group
    return {
        "group": group.name,
        "type": group.type,
        "state": group.state,
        "pipeline": found.progress.pipeline,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "coordinator_address": group.coordinator_address,
        "members": [member_json(one) for one in group.members],
        "idle": [one.member_id for one in group.idle],
        "partitions": [_partition_json(one, found) for one in found.progress.partitions],
        "lag": found.progress.lag,
        "problems": found.problems,
    }


def print_described(found: DescribedGroup) -> None:
    """Print the group, its members, its partitions, and the notes about them."""
    from platform_defs.groups.events import in_words

    progress, group = found.progress, found.progress.group
    print_fields(
        {
            "group": group.name,
            "protocol": "consumer (KIP-848)" if group.type == "consumer" else group.type,
            "state": group.state,
            "assignor": group.assignor,
            "coordinator": f"broker {group.coordinator} ({group.coordinator_address})",
            "lag": None if progress.lag is None else plural(progress.lag, "message"),
            **({"pipeline": progress.pipeline} if progress.pipeline else {}),
        }
    )
    if group.members:
        heads = ["member", "client id", "instance id", "host", "partitions"]
        rows = [
            (one.member_id, one.client_id, one.instance_id, one.host, in_words(one.partitions)) for one in group.members
        ]
        print_line("")
        print_table(heads, rows)
    if progress.partitions:
        heads = ["topic", "partition", "member", "committed", "log start", "end", "lag", "lag in seconds"]
        rows = [[*_partition_json(one, found).values()][:8] for one in progress.partitions]
        rows = [[*row, None if seconds is None else f"{seconds:,.1f}"] for *row, seconds in rows]
        print_line("")
        print_table(heads, rows)
    notes = [f"{group.idle_sentence}: {', '.join(map(str, group.idle))}"] if group.idle_sentence else []
    notes += [f"{one.topic}-{one.partition}: {one.note}" for one in progress.partitions if one.note and not one.problem]
    if progress.pipeline:
        notes.append(
            f"The group only shows the progress of the pipeline {progress.pipeline}; its position is in the ledger: "
            f"tidegate lag {progress.pipeline}"
        )
    if notes:
        print_line("\n" + "\n".join(notes))
    for sentence in dict.fromkeys([*(one.problem for one in progress.partitions if one.problem), *found.problems]):
        print_error(sentence)


def reset_json(found: Reset, *, executed: bool) -> dict[str, Any]:
    """Return the answer of `tidegate groups reset -o json`."""
    changes = [_change_json(one) for one in found.changes]
    return {"group": found.group.name, "changes": changes, "fingerprint": found.fingerprint, "executed": executed}


def print_reset(found: Reset, command: str, *, executed: bool) -> None:
    """Print the changes, then what was done or the command that does it."""
    heads = ["topic", "partition", "current", "new", "skipped", "read again", "log start", "end"]
    print_table(heads, [[*_change_json(one).values()] for one in found.changes])
    if executed:
        print_line(f"Moved {plural(len(found.changes), 'committed offset')} of {found.group.name}.")
    else:
        print_line(f"Nothing was changed. To move them: {command} --execute --expect {found.fingerprint}")


def deletion_json(found: Deletion, *, executed: bool) -> dict[str, Any]:
    """Return the answer of `tidegate groups delete -o json`."""
    partitions = [_lost_json(one) for one in found.progress.partitions]
    return {
        "group": found.progress.group.name,
        "pipeline": found.progress.pipeline,
        "partitions": partitions,
        "fingerprint": found.fingerprint,
        "executed": executed,
    }


def print_deletion(found: Deletion, command: str, *, executed: bool) -> None:
    """Print the committed offsets, then what was done or the command that does it."""
    from platform_defs.groups.groups import NO_OFFSETS

    progress = found.progress
    if progress.partitions:
        rows = [[*_lost_json(one).values()] for one in progress.partitions]
        print_table(["topic", "partition", "committed", "end", "lag"], rows)
    if progress.pipeline:
        print_line(
            f"The group only shows the progress of the pipeline {progress.pipeline}: its next run that reads "
            "messages creates the group again."
        )
    if not progress.partitions:
        print_line(NO_OFFSETS)
    lost = plural(len(progress.partitions), "committed offset")
    if executed:
        print_line(f"{progress.group.name} was deleted, with {lost}.")
    else:
        print_line(
            f"Nothing was changed. To delete the group, with {lost}: {command} --execute --expect {found.fingerprint}"
        )


def listed_json(one: GroupProgress) -> dict[str, Any]:
    return {
        "group": one.group.name,
        "type": one.group.type,
        "state": one.group.state,
        "members": _members(one),
        "idle": len(one.group.idle),
        "topics": one.topics,
        "lag": one.lag,
        "past_retention": one.expired,
        "pipeline": one.pipeline,
        "problem": one.problem,
    }


def _members(one: GroupProgress) -> int | None:
    """Return the number of members; None if that is not requested, or was not answered."""
    return len(one.group.members) if one.group.type in ("classic", "consumer") and not one.problem else None


def _partition_json(one: GroupPartition, found: DescribedGroup) -> dict[str, Any]:
    seconds = found.seconds.get(one.place)
    owner = next((each.member_id for each in found.progress.group.members if one.place in each.partitions), None)
    return {
        "topic": one.topic,
        "partition": one.partition,
        "member_id": owner,
        "committed": one.committed,
        "log_start": one.bounds and one.bounds.log_start,
        "end": one.bounds and one.bounds.end,
        "lag": one.lag,
        "lag_seconds": None if seconds is None else round(seconds, 3),
        "expired": one.expired,
        "note": one.note,
    }


def _change_json(one: OffsetChange) -> dict[str, Any]:
    change = asdict(one)
    bounds = change.pop("bounds")
    return {**change, "skipped": one.skipped, "read_again": one.read_again, **bounds}


def _lost_json(one: GroupPartition) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "committed": one.committed,
        "end": one.bounds and one.bounds.end,
        "lag": one.lag,
    }


def _some(topics: Iterable[str]) -> str:
    names = [*topics]
    more = f" and {len(names) - TOPICS} more" if len(names) > TOPICS else ""
    return ", ".join(names[:TOPICS]) + more
