"""`tidegate lag`: how far each pipeline is behind its topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from platform_defs.cli.options import AnyPipelinesArgument
from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table
from platform_defs.errors import TopicMissing
from platform_defs.errors.halts import PartitionSpan
from platform_defs.errors.words import noun_for, plural
from platform_defs.offsets import spell

if TYPE_CHECKING:
    from platform_defs.contract.model.contract import Contract
    from platform_defs.kafka.broker import KafkaBroker
    from platform_defs.ledger.answers import LineageBacklog, PipelineProgress, PipelineStatus
    from platform_defs.ledger.ledger import Ledger
    from platform_defs.offsets import PartitionView, TopicView
    from platform_defs.settings.contracts import BrokenContract


def lag(
    pipelines: AnyPipelinesArgument = None,
    output: OutputOption = Output.human,
) -> None:
    """Show how far each pipeline is behind its topic.

    The end of a partition is its last stable offset: messages of open
    transactions do not count, nor do messages that were deleted, for example
    by retention, before they were read. The pipeline halts for those. A
    contract that cannot be used is listed with its error; the others are
    shown, and the exit code is 0. If PIPELINE names such a contract, the
    command fails with its error.

    \b
    JSON with one PIPELINE (otherwise: pipelines, a list of such, and broken):
      pipeline, topic
      state       active or halted
      halt_code   null, or why it is halted
      running     whether a run is working on it
      backed_off  whether it is waiting after a failure
      retry_at    null, or when the next try is due
      last_error  null, or the error of the last run, if it failed; not
                  shown if it may quote fields that are classified now
      topic_recreated  whether the topic was created again since it was
                  read: then lag is null, and the next run halts
      lag         unread offsets; null while the topic does not exist
      deleted     unread offsets that the log no longer has; null likewise
      lineage_waiting, lineage_given_up  events not yet sent, and events
                  that their receiver refused too often
      lineage_problem  null, or the error of the last attempt
      partitions  partition, position (the next offset to read), end, lag,
                  batch_id and committed_at (of the last batch that read it),
                  deleted
    broken, a list: pipeline, file, line, field, message
    """
    from platform_defs.settings.contracts import Contracts, find_contract, read_contracts
    from platform_defs.stack.open_systems import open_systems

    named = [find_contract(name) for name in dict.fromkeys(pipelines or ())]
    if len(named) == 1:
        systems = open_systems()
        (item,) = _lags(named, systems.ledger, systems.broker.describe)
        print_answer(item, lambda: _print_one(item), output)
        return
    contracts, systems = Contracts(tuple(named), ()) if named else read_contracts(), open_systems()
    found = _lags(contracts.good, systems.ledger, partial(_described, systems.broker))
    broken = [
        {"pipeline": item.name, "file": at.file, "line": at.line, "field": at.field, "message": str(at)}
        for item in contracts.broken
        for at in (item.error,)
    ]
    document = {"pipelines": found, "broken": broken}
    print_answer(document, lambda: _print_all(found, contracts.broken), output)


def _lags(
    contracts: Sequence[Contract], ledger: Ledger, describe: Callable[[str], TopicView | None]
) -> list[dict[str, Any]]:
    """Return the lag of each pipeline, from the ledger first, then the broker: no position is beyond the end that is
    shown with it.
    """
    backlogs = ledger.lineage_backlog([contract.pipeline for contract in contracts]) if contracts else {}
    known = [(item, ledger.status(item.pipeline), ledger.progress(item.pipeline, item.topic)) for item in contracts]
    views = {topic: describe(topic) for topic in dict.fromkeys(contract.topic for contract in contracts)}
    return [
        _lag(contract, status, at, backlogs.get(contract.pipeline), views[contract.topic])
        for contract, status, at in known
    ]


def _lag(
    contract: Contract,
    status: PipelineStatus,
    at: Mapping[int, PipelineProgress],
    lineage: LineageBacklog | None,
    view: TopicView | None,
) -> dict[str, Any]:
    from platform_defs.contract.redaction import stored_error

    recreated = view is not None and any(item.topic_id != view.topic_id for item in at.values())
    shown = None if recreated else view
    partitions = [
        _partition(number, held, at.get(number), added=bool(at))
        for number, held in sorted(shown.partitions.items() if shown else ())
    ]
    return {
        "pipeline": contract.pipeline,
        "topic": contract.topic,
        "state": status.state,
        "halt_code": status.halt_code,
        "running": status.held,
        "backed_off": status.backed_off,
        "lag": sum(item["lag"] for item in partitions) if shown else None,
        "retry_at": status.retry_at if status.backed_off else None,
        "last_error": stored_error(contract, status.last_error, status.last_error_hides),
        "topic_recreated": recreated,
        "lineage_waiting": lineage.waiting if lineage else 0,
        "lineage_given_up": lineage.given_up if lineage else 0,
        "lineage_problem": lineage.problem if lineage else None,
        "deleted": sum(item["deleted"] for item in partitions) if shown else None,
        "partitions": partitions,
    }


def _partition(number: int, held: PartitionView, at: PipelineProgress | None, *, added: bool) -> dict[str, Any]:
    """Return the lag of a partition. `added`: one without a position is read from 0, as others were read before."""
    position = at.next_offset if at else None
    return {
        "partition": number,
        "position": position,
        "end": held.end,
        "lag": held.unread(position),
        "batch_id": at.batch_id if at else None,
        "committed_at": at.committed_at if at else None,
        "deleted": held.deleted(0 if position is None and added else position),
    }


def _described(broker: KafkaBroker, topic: str) -> TopicView | None:
    """Return the topic; None if it does not exist."""
    with suppress(TopicMissing):
        return broker.describe(topic)
    return None


def _print_all(found: Sequence[Mapping[str, Any]], broken: Sequence[BrokenContract]) -> None:
    for item in found:
        _print_one(item)
    for item in broken:
        print_line(f"{item.name} cannot be used: {item.error}")
    if not found and not broken:
        print_line(
            "There are no pipelines. To add one, write a contract, assets/<domain>/<name>.odcs.yaml, or "
            "create a project: tidegate init"
        )


def _print_one(item: Mapping[str, Any]) -> None:
    print_line(_sentence(item))
    if item["last_error"] and item["state"] != "halted":
        print_line(f"  the last run failed: {item['last_error']}")
    if item["deleted"]:
        print_line(f"  {_deleted(item)}")
    if message := _lineage(item):
        print_line(f"  {message}")
    if item["partitions"]:
        names = [name.replace("_", " ") for name in item["partitions"][0]]
        print_table(names, [[*part.values()] for part in item["partitions"]])


def _deleted(item: Mapping[str, Any]) -> str:
    """Return where messages were deleted before they were read, and what follows."""
    spans = [
        PartitionSpan(part["partition"], part["position"] or 0, (part["position"] or 0) + part["deleted"])
        for part in item["partitions"]
        if part["deleted"]
    ]
    count = item["deleted"] or 0
    were = noun_for(count, "was deleted before it could be read:", "were deleted before they could be read:")
    count_as_lag = noun_for(count, "It does not count as lag", "They do not count as lag")
    then = "" if item["state"] == "halted" else " The next batch halts the pipeline."
    return (
        f"{plural(count, 'unread offset')} {were} {spell(spans)}. {count_as_lag}.{then} To see what to do: tidegate "
        f"resolve {item['pipeline']}"
    )


def _lineage(item: Mapping[str, Any]) -> str:
    """Return what prevents lineage events from being sent; empty if the next run will send them."""
    waiting, lost = item["lineage_waiting"], item["lineage_given_up"]
    if not lost and not item["lineage_problem"]:
        return ""
    waits = f"{plural(waiting, 'lineage event')} {noun_for(waiting, 'waits', 'wait')} to be sent" if waiting else ""
    rejected = f"{plural(lost, 'lineage event')} {noun_for(lost, 'was', 'were')} rejected and will not be sent"
    messages = ", ".join(filter(None, (waits, rejected if lost else "")))
    return messages + (f": {item['lineage_problem']}" if item["lineage_problem"] else "")


def _sentence(item: Mapping[str, Any]) -> str:
    halted = f"HALTED ({item['halt_code']}; to see how to resolve it: tidegate resolve {item['pipeline']})"
    state = halted if item["state"] == "halted" else "running" if item["running"] else "active"
    if item["topic_recreated"]:
        then = (
            "" if item["state"] == "halted" else f" The next run halts. Then run: tidegate resolve {item['pipeline']}"
        )
        return f"{item['pipeline']}: topic {item['topic']} was recreated since it was read, {state}.{then}"
    if item["lag"] is None:
        return f"{item['pipeline']}: topic {item['topic']} does not exist (to create it: tidegate topics apply)"
    waits = f", waiting to retry at {item['retry_at'].isoformat(' ', 'seconds')}" if item["retry_at"] else ""
    return f"{item['pipeline']}: {plural(item['lag'], 'message')} behind {item['topic']}, {state}{waits}"
