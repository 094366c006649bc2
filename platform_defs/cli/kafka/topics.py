"""`tidegate topics`: topics as contracts and topics.yaml declare them, planned and applied."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from platform_defs.cli.kafka.topics_describe import describe
from platform_defs.cli.output import Output, OutputOption, print_answer, print_json, progress
from platform_defs.cli.reasons import ExpectOption, refuse_unexpected
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from platform_defs.operations.topics.topic_plan import Topics

app = typer.Typer(
    help="Topics as contracts and topics.yaml declare them: planned, applied, imported.",
    no_args_is_help=True,
    add_completion=False,
)

CHANGES = 10  # exit code of plan --exit-code if there is something to do
Only = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be given several times.")
]
Break = Annotated[
    bool, typer.Option("--break-key-order", help="Add partitions although keys would then map to other partitions.")
]
Recreate = Annotated[bool, typer.Option("--recreate", help="Create missing topics that pipelines have read.")]
NewCluster = Annotated[
    str | None,
    typer.Option(
        metavar="ID", help="The id of the cluster that replaces the one of the first apply.", show_default=False
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
        help="The fingerprint shown for a pipeline that will not read the topic again (repeat for several).",
        show_default=False,
    ),
]


@app.command("list")
def list_(output: OutputOption = Output.human) -> None:
    """List the topics of the contracts, of topics.yaml and of the cluster.

    Internal topics are left out: those whose names begin with two underscores.

    \b
    JSON: cluster_id, sizes_unknown (null, or why), topics, a list:
      topic, topic_id (null: does not exist)
      state       as_declared, differs, missing, not_declared, or hidden (Kafka
                  does not let this user describe it)
      file, line  where it is declared; null where nothing is
      pipelines   that read it
      partitions, replication_factor  as they are
      size        bytes of all its replicas; null where brokers do not say
      config      its overrides
      changes     what tidegate topics apply would do, as sentences
      problem     why it is hidden, as a sentence; else null
    """
    from platform_defs.cli.kafka.topics_answer import print_topics
    from platform_defs.operations.topics.topic_list import list_topics

    listed = list_topics(_topics())
    print_json(listed.to_json()) if output is Output.json else print_topics(listed)


app.command()(describe)


@app.command()
def plan(
    file: Path | None = typer.Option(
        None, "--file", help="Write the plan to this file, for apply.", show_default=False
    ),
    exit_code: bool = typer.Option(False, "--exit-code", help="Exit with 10 where there is something to do."),
    topic: Only = None,
    break_key_order: Break = False,
    recreate: Recreate = False,
    new_cluster: NewCluster = None,
    cluster_id: ClusterId = None,
    retired: Retired = None,
    output: OutputOption = Output.human,
) -> None:
    """Show the changes that make the topics match their declarations.

    A contract's topic that is missing is created, with the cluster's defaults
    for what is not declared. Of topics that exist, only what is declared is
    compared. The exit code is 1 where a rule refuses the plan, which is then
    not written to a file either. If no ledger identifies the intended
    cluster, --cluster-id must name it.

    \b
    JSON:
      refused   whether a rule refuses it
      verdicts  severity (refuse or warn), rule, topic, message, file, line,
                field
      plan      cluster_id; topics: of each that changes null, or topic_id,
                replicas (of each partition, broker ids), overrides;
                steps: step (create, configs, partitions or reassign), topic,
                and what was seen and what it becomes
    """
    from platform_defs.cli.kafka.topics_answer import print_judged
    from platform_defs.operations.topics.topic_plan import Allowed, store

    judged = _topics(topic).plan(Allowed(break_key_order, new_cluster, cluster_id, recreate, tuple(retired or ())))
    print_judged(judged, output)
    if judged.refused:
        raise typer.Exit(1)
    if file is not None:
        store(judged.plan, file)
    if exit_code and judged.plan.steps:
        raise typer.Exit(CHANGES)


@app.command()
def apply(
    file: Path | None = typer.Argument(None, help="A plan of tidegate topics plan --file.", show_default="a new plan"),
    yes: bool = typer.Option(False, "--yes", help="Do not ask."),
    topic: Only = None,
    break_key_order: Break = False,
    recreate: Recreate = False,
    new_cluster: NewCluster = None,
    cluster_id: ClusterId = None,
    retired: Retired = None,
    output: OutputOption = Output.human,
) -> None:
    """Make topics match their declarations, by a new plan or the one in FILE.

    A contract's topic that is missing is created, with the cluster's defaults
    for what is not declared. A plan in a file is applied only if the cluster,
    the topic ids, everything else that it recorded and the declarations have
    not changed; otherwise nothing is changed. A plan that was shown is checked
    in the same way when you confirm it. If no ledger identifies the intended
    cluster, --cluster-id must name it. What is not declared is not changed, and
    no topic is deleted. Kafka validates all steps before the first is applied.
    Replicas are moved as by tidegate cluster reassign apply, at most 50 MB a
    second from and to each broker. If the command is interrupted, run it again.

    \b
    JSON: as tidegate topics plan, and applied
    """
    from platform_defs.cli.kafka.topics_answer import judged_json, print_judged
    from platform_defs.operations.topics.topic_plan import Allowed, stored

    allowed = Allowed(break_key_order, new_cluster, cluster_id, recreate, tuple(retired or ()))
    if file is not None and not file.exists():
        raise typer.BadParameter(f"there is no file {file}. To apply one topic: tidegate topics apply --topic {file}")
    kept = stored(file) if file else None
    topics = _topics([*kept.topics] if kept else topic)
    topics.moves.finish()
    judged = topics.plan(allowed)
    if kept is not None:
        topics.still(kept, judged)
    if output is Output.human or judged.refused:
        print_judged(judged, output)
    if judged.refused:
        raise typer.Exit(1)
    if judged.plan.steps and not yes:
        _ask()
        shown, judged = judged.plan, topics.plan(allowed)
        topics.still(shown, judged)
        if judged.refused:
            print_judged(judged, output)
            raise typer.Exit(1)
    if judged.plan.steps:
        with progress() as show:
            topics.apply(judged, allowed, show)
    if output is Output.json or judged.plan.steps:
        done = f"Applied to {plural(len(judged.plan.topics), 'topic')}."
        print_answer({**judged_json(judged), "applied": True}, done, output)


@app.command("import")
def import_(
    topic: str = typer.Argument(help="A topic that exists."),
    write: bool = typer.Option(False, "--write", help="Add it to topics.yaml, if no contract reads it."),
    output: OutputOption = Output.human,
) -> None:
    """Print a topic that exists as it would be declared.

    For a topic that a contract reads, these are the customProperties of its
    message; for another one, an entry of topics.yaml.

    \b
    JSON:
      topic, pipelines
      file     where it belongs: the contract, or topics.yaml
      yaml     the text
      written  whether it was added to topics.yaml
    """
    from platform_defs.operations.topics.topic_list import import_topic

    found = import_topic(_topics(), topic, write=write)
    where = f"# {'added to' if found.written else 'for'} {found.file}\n"
    print_answer(found.to_json(), where + found.yaml.rstrip("\n"), output)


@app.command()
def delete(
    topic: str = typer.Argument(help="A topic that exists."),
    confirm: str = typer.Option(metavar="TOPIC", help="The topic's name again."),
    expect: ExpectOption = None,
    output: OutputOption = Output.human,
) -> None:
    """Delete a topic with all its messages.

    Refused while a contract reads it or topics.yaml lists it: take it out there
    first, or the next apply would make it again, empty. Also refused while a
    pipeline in the ledger has unread messages in it, and if no ledger can show
    that: the error says how many are unread, and prints the --expect that
    deletes the topic anyway, unless anything has changed since then.

    \b
    JSON: topic, topic_id, messages (offsets that it held), deleted
    """
    from platform_defs.operations.topics.topic_list import propose_deletion

    if confirm != topic:
        raise BadInput(f"--confirm {confirm} is not the name of the topic, {topic}. Nothing was deleted")
    topics, command = _topics(), f"tidegate topics delete {topic} --confirm {topic}"
    found = propose_deletion(topics, topic)
    refuse_unexpected(topic, expect, found.fingerprint, command)
    size = plural(found.messages, "message")
    if found.objections and expect is None:
        raise BadInput(
            f"{topic} ({found.topic_id}) with {size} is not deleted: {'; '.join(found.objections)}. To delete it "
            f"anyway: {command} --expect {found.fingerprint}"
        )
    topics.admin.delete(topic, found.topic_id)
    answer = {"topic": topic, "topic_id": found.topic_id, "messages": found.messages, "deleted": True}
    print_answer(answer, f"{topic} ({found.topic_id}) is deleted, with {size}.", output)


def _topics(only: list[str] | None = None) -> Topics:
    """Return the topics. Kafka is needed; Postgres, which has the pipelines' positions, may be away."""
    from platform_defs.operations.topics.topic_plan import Topics
    from resources.endpoints import kafka_alone, ledger_if_any
    from resources.kafka.admin.topic_admin import TopicAdmin
    from resources.process.settings import settings

    chosen = settings()
    return Topics(chosen.contracts_folder, TopicAdmin(kafka_alone()), ledger_if_any(), tuple(only or ()), chosen.home)


def _ask() -> None:
    """Ask for confirmation. Raises BadInput without a terminal, or if the user declines."""
    if not sys.stdin.isatty():
        raise BadInput("cannot ask for confirmation: stdin is not a terminal. Give --yes. Nothing was changed")
    if not typer.confirm("Apply it?", err=True):
        raise BadInput("nothing was changed")
