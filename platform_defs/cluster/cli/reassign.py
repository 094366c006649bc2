"""`tidegate cluster reassign`: moves replicas, and moves them back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_error, print_line, print_table, progress
from platform_defs.cluster.reassignment import THROTTLE, Reassignment, from_json, to_json
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.cluster.reassign import Kept, Progress, Reassigning

UNDER_WAY = 10  # the exit code while it has not ended


def plan(
    topics: list[str] | None = typer.Argument(
        None, metavar="TOPIC", help="Topics to plan for.", show_default="all but Kafka's own"
    ),
    replication_factor: int | None = typer.Option(
        None, "--replication-factor", min=1, help="The new replication factor of the topics.", show_default="as it is"
    ),
    without: list[int] | None = typer.Option(
        None, "--without", help="A broker to move all replicas away from; may be repeated.", show_default=False
    ),
    leaders_only: bool = typer.Option(False, "--leaders-only", help="Change only leaders; move no replica."),
    file: Path | None = typer.Option(None, "--file", help="Where to write the plan.", show_default=False),
    output: OutputOption = Output.human,
) -> None:
    """Plan where the replicas of topics should be, without moving any.

    The plan spreads each partition over as many racks as possible and each
    topic's replicas evenly over the brokers, with as few moves as possible. It
    then balances the leaders by reordering replicas. With --file, the plan and
    the observed state are written to a file for tidegate cluster reassign
    apply.

    \b
    JSON:
      kind        the format of the plan
      cluster_id
      moves       replicas that are copied to another broker
      bytes       to copy; null if a broker does not report it
      topics      by name: topic_id, bytes, partitions (by number: observed,
                  planned: lists of brokers, the preferred leader first)
    """
    from platform_defs.cluster.reassign_plan import Wanted, plan

    if leaders_only and (replication_factor is not None or without):
        raise typer.BadParameter("--leaders-only moves no replicas: leave out --replication-factor and --without")
    wanted = Wanted(tuple(topics or ()), replication_factor, tuple(without or ()), leaders_only)
    found = plan(_reassigning().look, wanted)
    document = to_json(found)
    if file is not None:
        store(document, file)
    print_answer({"moves": found.moves, "bytes": found.bytes, **document}, lambda: _print_plan(found, file), output)


def store(document: Mapping[str, Any], file: Path) -> None:
    """Write the plan's file. Raises BadInput if it cannot be written."""
    try:
        file.write_text(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise BadInput(f"the plan cannot be written: {error.strerror}", file=str(file)) from error


def _reassigning() -> Reassigning:
    from platform_defs.cluster.observe import Look
    from platform_defs.cluster.reassign import Reassigning, Record
    from platform_defs.settings.settings import settings
    from platform_defs.stack.endpoints import kafka_alone, ledger_if_any

    return Reassigning(Look(kafka_alone()), Record(settings().home, ledger_if_any()))


def _print_plan(plan: Reassignment, file: Path | None) -> None:
    if not plan.topics:
        print_line("Nothing to move: all replicas are already in place.")
        return
    rows = [
        (item.topic, number, list(item.observed[number]), list(item.planned[number]))
        for item in plan.topics
        for number in sorted(item.planned)
    ]
    print_table(["topic", "partition", "replicas", "planned"], rows)
    size = "an unknown number of bytes" if plan.bytes is None else plural(plan.bytes, "byte")
    print_line(
        f"{plural(plan.moves, 'replica')} to copy ({size}); {plural(len(plan.orders()), 'change')} of replica "
        "order only."
    )
    if file is None:
        print_line(
            "To apply the plan, run this command again with --file plan.json, then: tidegate cluster reassign "
            "apply plan.json"
        )
    else:
        print_line(f"To apply it: tidegate cluster reassign apply {file}")


def apply(
    plan: Path | None = typer.Argument(None, help="A plan file.", show_default="the plan that was applied last"),
    back: bool = typer.Option(False, "--back", help="Move the replicas back to where they were before."),
    throttle: int = typer.Option(THROTTLE, min=1, help="Maximum copy rate of each broker, in bytes per second."),
    timeout: float = typer.Option(3600.0, min=0, help="Maximum time to wait for the end, in seconds."),
    output: OutputOption = Output.human,
) -> None:
    """Move the replicas as planned, and wait until they have moved.

    Nothing changes if the cluster, a topic or its replicas have changed since
    the plan was made. Partitions whose replicas are only reordered come first.
    Copies are throttled; at the end the throttles are removed, and the first
    replica of each partition is elected leader. If the command is interrupted,
    Kafka continues to move the replicas; run the command again, or tidegate
    cluster reassign status, to finish. The exit code is 10 if the reassignment
    has not ended within --timeout.

    \b
    JSON: as tidegate cluster reassign status
    """
    reassigning = _reassigning()
    chosen = _chosen(reassigning, plan, back=back)
    if why := reassigning.record.unkept(chosen.cluster_id):
        print_error(
            f"The ledger cannot record this reassignment: {why}. It is recorded only in {reassigning.record.path}: "
            "do not delete that file until the replicas have moved"
        )
    with progress() as show:
        begun = reassigning.begin(chosen, throttle)
        found = reassigning.wait(begun.kept, timeout, lambda at: show(_sentence(at)))
    _answer(found or begun, output)


def _chosen(reassigning: Reassigning, file: Path | None, *, back: bool) -> Reassignment:
    if file is None:
        chosen = _kept(reassigning).plan
    else:
        try:
            chosen = from_json(json.loads(file.read_text()), str(file))
        except (OSError, ValueError) as error:
            raise BadInput(f"the plan cannot be read: {error}", file=str(file)) from error
    return chosen.back() if back else chosen


def _kept(reassigning: Reassigning) -> Kept:
    cluster_id = reassigning.cluster_id
    if (kept := reassigning.record.load(cluster_id)) is None:
        why = reassigning.record.unkept(cluster_id)
        raise BadInput(
            f"no reassignment is recorded in {reassigning.record.path}, nor in the "
            f"ledger{f' ({why})' if why else ''}. If throttles are left over (tidegate cluster health shows them): "
            "tidegate cluster reassign status --adopt. To start a reassignment: tidegate cluster reassign plan "
            "--file plan.json, then tidegate cluster reassign apply plan.json"
        )
    return kept


def status(
    adopt: bool = typer.Option(
        False, "--adopt", help="If no reassignment is under way, remove throttles that an unrecorded one left behind."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Show the progress of the last reassignment that was applied, and finish it.

    Once no replica is moving, the command removes the throttles, and the first
    replica of each partition is elected leader. This also finishes an
    interrupted apply, from any machine with the same ledger. The exit code is
    10 while the reassignment is under way.

    \b
    JSON with --adopt, if none is under way: unthrottled (topics)
    JSON otherwise:
      state     under way, done or cancelled
      moving    partitions that are moving: topic, partition, replicas, adding,
                removing
      waiting   partitions that have not started to move: topic, partition, planned
      moves     replicas that the plan moves
      throttle  bytes a second, of each broker
    """
    reassigning = _reassigning()
    kept = reassigning.kept() if adopt else None
    if not adopt or (kept is not None and kept.state == "under way"):
        _answer(reassigning.status(_kept(reassigning)), output)
        return
    cleared = reassigning.clear()
    message = f"Removed the throttles from {plural(len(cleared), 'topic')}." if cleared else "No topic is throttled."
    print_answer({"unthrottled": list(cleared)}, message, output)


def cancel(output: OutputOption = Output.human) -> None:
    """Cancel a reassignment: move replicas in progress back, remove throttles.

    Partitions that have already moved stay. To move them back, run tidegate
    cluster reassign apply --back.

    \b
    JSON: as tidegate cluster reassign status; moving: those that went back
    """
    reassigning = _reassigning()
    found = reassigning.cancel(_kept(reassigning))
    went = f"{plural(len(found.moving), 'partition')} went back. " if found.moving else ""
    print_answer(_progress_json(found), went + _sentence(found), output)


def _answer(found: Progress, output: Output) -> None:
    print_answer(_progress_json(found), _sentence(found), output)
    if found.kept.state == "under way":
        raise typer.Exit(UNDER_WAY)


def _progress_json(found: Progress) -> dict[str, Any]:
    moving = (asdict(item) for item in found.moving)
    return {
        "state": found.kept.state,
        "moving": [{"topic": one.pop("topic"), "partition": one.pop("number"), **one} for one in moving],
        "waiting": [
            {"topic": topic, "partition": number, "planned": planned}
            for (topic, number), planned in sorted(found.waiting.items())
        ],
        "moves": found.kept.plan.moves,
        "throttle": found.kept.throttle,
    }


def _sentence(found: Progress) -> str:
    plan = found.kept.plan
    total = f"{plural(len(plan.planned()), 'partition')} with {plural(plan.moves, 'replica')} to copy"
    match found.kept.state:
        case "done":
            return f"Done: {total}. To undo it: tidegate cluster reassign apply --back"
        case "cancelled":
            return (
                f"Cancelled: {total}. To move back the replicas that have already arrived: tidegate cluster "
                "reassign apply --back"
            )
        case "under way":
            pass
    if found.waiting and not found.moving:
        begin = "to start: tidegate cluster reassign apply"
        return f"No replica is moving, and {len(found.waiting)} of {total} have not started; {begin}"
    return f"{len(found.moving)} in progress and {len(found.waiting)} waiting, of {total}"
