"""`tidegate topics`: topics as contracts and topics.yaml declare them, planned and applied."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from platform_defs.cli.options import ExpectOption
from platform_defs.cli.output import (
    Output,
    OutputOption,
    print_answer,
    print_error,
    print_json,
    print_line,
    print_table,
    progress,
)
from platform_defs.cli.proposals import refuse_unexpected
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.topics.cli.describe import describe

if TYPE_CHECKING:
    from platform_defs.topics.apply import CheckedPlan, Topics
    from platform_defs.topics.topic_list import TopicList

app = typer.Typer(no_args_is_help=True, add_completion=False)

CHANGES = 10  # exit code of plan --exit-code if there is something to do
Only = Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated.")]
Break = Annotated[
    bool, typer.Option("--break-key-order", help="Add partitions although keys would then map to other partitions.")
]
Recreate = Annotated[bool, typer.Option("--recreate", help="Create missing topics that pipelines have read.")]
NewCluster = Annotated[
    str | None,
    typer.Option(
        metavar="ID", help="The id of the new cluster, if it replaces the one of the first apply.", show_default=False
    ),
]
ClusterId = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="The id of the intended cluster: any other is refused. Required if no ledger identifies it.",
        show_default=False,
    ),
]
Retired = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FINGERPRINT",
        help="The fingerprint shown for a pipeline that will not read the topic again (may be repeated).",
        show_default=False,
    ),
]


@app.command("list")
def list_(output: OutputOption = Output.human) -> None:
    """List the topics in contracts, in topics.yaml and on the cluster.

    Internal topics, whose names begin with two underscores, are omitted.

    \b
    JSON: cluster_id, sizes_unknown (null, or why), topics, a list:
      topic, topic_id (null: does not exist)
      state       as_declared, differs, missing, not_declared, or hidden (Kafka
                  does not let this user describe it)
      file, line  where it is declared; null if it is not declared
      pipelines   that read it
      partitions, replication_factor  as they are
      size        bytes of all its replicas; null if brokers do not say
      config      its overrides
      changes     what tidegate topics apply would do, as sentences
      problem     why it is hidden, as a sentence; else null
    """
    from platform_defs.topics.topic_list import list_topics

    listed = list_topics(_topics())
    print_answer(asdict(listed), lambda: _print_topics(listed), output)


app.command()(describe)


@app.command()
def plan(
    file: Path | None = typer.Option(
        None, "--file", help="Write the plan to this file, for apply.", show_default=False
    ),
    exit_code: bool = typer.Option(False, "--exit-code", help="Exit with 10 if there are changes to apply."),
    topic: Only = None,
    break_key_order: Break = False,
    recreate: Recreate = False,
    new_cluster: NewCluster = None,
    cluster_id: ClusterId = None,
    retired: Retired = None,
    output: OutputOption = Output.human,
) -> None:
    """Show the changes that would make the topics match their declarations.

    A contract's missing topic would be created with the cluster's defaults for
    what is not declared. For existing topics, only declared settings are
    compared. The exit code is 1 if a rule refuses the plan; a refused plan is
    not written to a file. If no ledger identifies the intended cluster,
    --cluster-id must name it.

    \b
    JSON:
      refused     whether a rule refuses it
      violations  severity (refuse or warn), rule, topic, message, file, line,
                  field
      plan        cluster_id; topics: for each that changes, null or topic_id,
                  replicas (of each partition, broker ids), overrides;
                  steps: step (create, configs, partitions or reassign), topic,
                  the observed state and the new one
    """
    from platform_defs.topics.apply import Allowed, store

    checked = _topics(topic).plan(Allowed(break_key_order, new_cluster, cluster_id, recreate, tuple(retired or ())))
    _print_checked(checked, output)
    if checked.refused:
        raise typer.Exit(1)
    if file is not None:
        store(checked.plan, file)
    if exit_code and checked.plan.steps:
        raise typer.Exit(CHANGES)


@app.command()
def apply(
    file: Path | None = typer.Argument(
        None, help="A plan written by tidegate topics plan --file.", show_default="a new plan"
    ),
    yes: bool = typer.Option(False, "--yes", help="Do not ask for confirmation."),
    topic: Only = None,
    break_key_order: Break = False,
    recreate: Recreate = False,
    new_cluster: NewCluster = None,
    cluster_id: ClusterId = None,
    retired: Retired = None,
    output: OutputOption = Output.human,
) -> None:
    """Make topics match their declarations, with a new plan or the plan in FILE.

    A contract's topic is created if it is missing, with the cluster's defaults
    for what is not declared. A plan in a file is applied only if the
    declarations and everything that the plan recorded, such as the cluster and
    the topic ids, are unchanged; otherwise nothing changes. A plan that was
    shown is checked in the same way when you confirm it. If no ledger
    identifies the intended cluster, --cluster-id must name it. What is not
    declared is not changed, and no topic is deleted. Kafka validates all steps
    before the first is applied. Replicas are moved as tidegate cluster
    reassign apply moves them, at most 50 MB per second from and to each
    broker. If the command is interrupted, run it again.

    \b
    JSON: as tidegate topics plan, plus applied
    """
    from platform_defs.topics.apply import Allowed, stored

    allowed = Allowed(break_key_order, new_cluster, cluster_id, recreate, tuple(retired or ()))
    if file is not None and not file.exists():
        raise typer.BadParameter(f"there is no file {file}. To apply one topic: tidegate topics apply --topic {file}")
    kept = stored(file) if file else None
    topics = _topics([*kept.topics] if kept else topic)
    topics.finish_moves()
    checked = topics.plan(allowed)
    if kept is not None:
        topics.still(kept, checked)
    if output is Output.human or checked.refused:
        _print_checked(checked, output)
    if checked.refused:
        raise typer.Exit(1)
    if checked.plan.steps and not yes:
        _ask()
        shown, checked = checked.plan, topics.plan(allowed)
        topics.still(shown, checked)
        if checked.refused:
            _print_checked(checked, output)
            raise typer.Exit(1)
    if checked.plan.steps:
        with progress() as show:
            topics.apply(checked, allowed, show)
    if output is Output.json or checked.plan.steps:
        done = f"Applied to {plural(len(checked.plan.topics), 'topic')}."
        print_answer({**_checked_json(checked), "applied": True}, done, output)


@app.command("import")
def import_(
    topic: str = typer.Argument(help="An existing topic."),
    write: bool = typer.Option(False, "--write", help="Add it to topics.yaml, if no contract reads it."),
    output: OutputOption = Output.human,
) -> None:
    """Print the declaration that an existing topic would have.

    If a contract reads the topic, the declaration is the customProperties of
    its message; otherwise it is an entry of topics.yaml.

    \b
    JSON:
      topic, pipelines
      file     where it belongs: the contract, or topics.yaml
      yaml     the text
      written  whether it was added to topics.yaml
    """
    from platform_defs.topics.topic_list import import_topic

    found = import_topic(_topics(), topic, write=write)
    where = f"# {'added to' if found.written else 'for'} {found.file}\n"
    print_answer(asdict(found), where + found.yaml.rstrip("\n"), output)


@app.command()
def delete(
    topic: str = typer.Argument(help="An existing topic."),
    confirm: str = typer.Option(metavar="TOPIC", help="The topic's name again."),
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Delete a topic with all its messages.

    The command refuses a topic that a contract reads or topics.yaml lists:
    remove it there first, or the next apply would create it again, empty. It
    also refuses a topic with messages that a pipeline in the ledger has not
    read, and any topic if there is no ledger to check. The error then reports
    how many messages are unread, and prints the --expect that deletes the
    topic anyway, unless anything has changed since then.

    \b
    JSON: topic, topic_id, messages (offsets that it held), deleted
    """
    from platform_defs.topics.topic_list import propose_deletion

    if confirm != topic:
        raise BadInput(f"--confirm {confirm} is not the name of the topic, {topic}. Nothing was deleted")
    topics, command = _topics(), f"tidegate topics delete {topic} --confirm {topic}"
    found = propose_deletion(topics, topic)
    refuse_unexpected(topic, expect, found.fingerprint, command)
    size = plural(found.messages, "message")
    if found.objections and expect is None:
        raise BadInput(
            f"{topic} ({found.topic_id}) with {size} was not deleted: {'; '.join(found.objections)}. To delete it "
            f"anyway: {command} --expect {found.fingerprint}"
        )
    topics.admin.delete(topic, found.topic_id)
    answer = {"topic": topic, "topic_id": found.topic_id, "messages": found.messages, "deleted": True}
    print_answer(answer, f"{topic} ({found.topic_id}) was deleted, with {size}.", output)


def _print_checked(checked: CheckedPlan, output: Output) -> None:
    """Print the steps, then the violations of the rules."""
    if output is Output.json:
        print_json(_checked_json(checked))
        return
    for step in checked.plan.steps:
        print_line(f"{step.topic}: {step.sentence()}")
    for violation in checked.violations:
        print_error(str(violation))
    if checked.refused:
        print_error("Nothing can be applied until you fix the refused items above.")
    elif not checked.plan.steps:
        print_line("Nothing to do: every topic exists and is as declared.")


def _checked_json(checked: CheckedPlan) -> dict[str, Any]:
    """Return the document of `tidegate topics plan -o json`."""
    nowhere = {"file": None, "line": None, "field": None}
    violations = [
        {"severity": one.severity, "rule": one.rule, "topic": one.topic or None, "message": one.message}
        | (asdict(one.place) if one.place else nowhere)
        for one in checked.violations
    ]
    return {"refused": checked.refused, "violations": violations, "plan": asdict(checked.plan)}


def _print_topics(listed: TopicList) -> None:
    """Print a line for each topic, then its overrides, and what differs."""
    heads = ["topic", "state", "partitions", "replicas", "bytes (all replicas)", "contract"]
    rows = [
        (
            one.topic,
            one.state.replace("_", " "),
            one.partitions,
            one.replication_factor,
            None if one.size is None else f"{one.size:,}",
            ", ".join(one.pipelines) or one.where,
        )
        for one in listed.topics
    ]
    print_table(heads, rows)
    for one in listed.topics:
        if one.config:
            overrides = ", ".join(f"{name} {value}" for name, value in sorted(one.config.items()))
            print_line(f"{one.topic} overrides {overrides}")
    if listed.sizes_unknown:
        print_error(f"byte counts are unavailable: {listed.sizes_unknown}")
    for one in listed.topics:
        for change in one.changes:
            print_line(f"{one.topic}: {change}")
        if one.problem:
            print_error(one.problem)


def _topics(only: list[str] | None = None) -> Topics:
    """Return the topics. Kafka is needed; Postgres, which has the pipelines' positions, may be unavailable."""
    from platform_defs.settings.settings import settings
    from platform_defs.stack.endpoints import kafka_alone, ledger_if_any
    from platform_defs.topics.admin import TopicAdmin
    from platform_defs.topics.apply import Topics

    chosen = settings()
    return Topics(chosen.contracts_folder, TopicAdmin(kafka_alone()), ledger_if_any(), tuple(only or ()), chosen.home)


def _ask() -> None:
    """Ask for confirmation. Raises BadInput without a terminal, or if the user declines."""
    if not sys.stdin.isatty():
        raise BadInput("cannot ask for confirmation: stdin is not a terminal. Add --yes. Nothing was changed")
    if not typer.confirm("Apply it?", err=True):
        raise BadInput("nothing was changed")
