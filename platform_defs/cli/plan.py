"""`tidegate plan`: what the next batch would read and do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_fields, print_json, print_line, print_table, progress
from platform_defs.errors import Halt

if TYPE_CHECKING:
    from platform_defs.contract.model import Contract
    from platform_defs.engine.planning import Plan
    from resources.postgres.answers import PipelineStatus

app = typer.Typer(add_completion=False)


@app.command()
def plan(
    pipeline: str = typer.Argument(help="A pipeline, such as bank_transfers."),
    explain: bool = typer.Option(
        False, "--explain", help="Show what each step will do, and Spark's plan (starts Spark)."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Show what the next batch would read and do, and change nothing.

    Decided by the code that runs the batch. The exit code is 1 where the
    pipeline is halted, or the next run would halt it.

    \b
    JSON:
      pipeline, topic, delivery, epoch
      state      active or halted
      halt       null, or code, reason, message, detail, command
      held_by    null, or run_id of the run that works now
      backed_off_until  null, or when the sensor retries a failed check
      batch      null, or batch_id (null: a new one), again, offsets, tasks,
                 ranges (partition, from_offset, until_offset, offsets)
      nothing    null, or why there is no batch
      added      partition, next_offset of those new to the ledger
      waiting    partitions of an upsert that come after the others
      lag, left  unread offsets before and after; null where halted
      dead_letters  share, minimum, accepted, rule
      tables     table, disposition, how
      steps      with --explain and a batch: step, name, does
      spark      likewise: Spark's physical plan of the job
    """
    from assets import find_contract

    contract = find_contract(pipeline)
    document, planned = look(contract)
    if explain and planned is not None and planned.ranges:
        document |= _explained(contract, planned)
    if output is Output.json:
        print_json(document)
    else:
        _show(document)
    if document["halt"] is not None:
        raise typer.Exit(1)


def look(contract: Contract) -> tuple[dict[str, Any], Plan | None]:
    """The answer, and the plan unless the pipeline is halted, or would be. Ledger first, then broker, as a run does."""
    from platform_defs.cli.outside import outside
    from platform_defs.engine.batch import describe
    from platform_defs.engine.planning import decide

    systems = outside()
    found = systems.ledger.status_and_positions(contract)
    status = found.status
    document = _state(contract, status, held=systems.ledger.is_running(status))
    try:
        if status.halt is not None:
            raise status.halt
        view = describe(systems.broker, contract.topic, found.positions)
        planned = decide(contract, found.positions, status.pending, view)
        if planned.halt is not None:
            raise planned.halt
    except Halt as halt:
        return {**document, "halt": _halt(halt, status.state)}, None
    return {**document, **_batch(planned)}, planned


def _state(contract: Contract, status: PipelineStatus, *, held: bool) -> dict[str, Any]:
    from platform_defs.engine.explain import dead_letter_limit, how

    limits, pending = contract.limits, status.pending
    return {
        "pipeline": contract.pipeline,
        "topic": contract.topic,
        "state": status.state,
        "epoch": status.epoch,
        "delivery": contract.delivery,
        "halt": None,
        "held_by": {"run_id": status.run_id} if held else None,
        "backed_off_until": status.retry_at if status.backed_off else None,
        "batch": None,
        "nothing": None,
        "added": [],
        "waiting": [],
        "lag": None,
        "left": None,
        "dead_letters": {
            "share": limits.dead_letter_share,
            "minimum": limits.dead_letter_minimum,
            "accepted": pending is not None and pending.dead_letters_accepted,
            "rule": dead_letter_limit(limits, pending),
        },
        "tables": [{"table": t.name, "disposition": t.disposition, "how": how(t)} for t in contract.tables],
    }


def _halt(halt: Halt, state: str) -> dict[str, Any]:
    coming = (
        f"{halt.pipeline} will halt on its next run ({halt.code}): {halt.reason} Once it has, to see how to settle it: "
        f"{halt.command}"
    )
    return {
        "code": halt.code,
        "reason": halt.reason,
        "message": str(halt) if state == "halted" else coming,
        "detail": halt.detail.to_json(),
        "command": halt.command,
    }


def _batch(planned: Plan) -> dict[str, Any]:
    """What a decided plan adds to the answer."""
    pending = planned.pending
    ranges = [
        {
            "partition": item.partition,
            "from_offset": item.from_offset,
            "until_offset": item.until_offset,
            "offsets": len(item),
        }
        for item in planned.ranges
    ]
    batch = {
        "batch_id": pending.batch_id if pending else None,
        "again": pending is not None,
        "offsets": planned.offsets,
        "tasks": len(ranges),
        "ranges": ranges,
    }
    return {
        "batch": batch if ranges else None,
        "nothing": None if ranges else "everything is read, up to the last stable offset of each partition",
        "added": [{"partition": item.partition, "next_offset": item.next_offset} for item in planned.added],
        "waiting": list(planned.waiting),
        "lag": sum(planned.lag.values()),
        "left": sum(planned.left.values()),
    }


def _explained(contract: Contract, planned: Plan) -> dict[str, Any]:
    """The steps in sentences, and Spark's plan of the job, for which Spark is started."""
    from assets import with_transform
    from platform_defs.engine.explain import explain
    from platform_defs.engine.find_poison import describe_job
    from resources.endpoints import connection
    from resources.kafka.source import KafkaSource
    from resources.spark.session import spark_config, start_session

    pipeline = with_transform(contract)
    with progress() as show:
        show("starting Spark for its plan of the job, which is not run")
        spark = start_session(spark_config())
    try:
        job = describe_job(spark, pipeline, KafkaSource(connection().kafka_options()), planned.ranges)
    finally:
        spark.stop()
    return {"steps": [asdict(step) for step in explain(pipeline, planned)], "spark": job}


def _show(found: Mapping[str, Any]) -> None:
    print_line(f"{found['pipeline']}: {_sentence(found)}")
    if found["held_by"]:
        print_line(f"A run is at work (run {found['held_by']['run_id'] or 'by hand'}); it may be further by now.")
    if found["backed_off_until"]:
        print_line(
            f"A check failed; the sensor retries at {found['backed_off_until']:%F %T} UTC. Materialize to retry now."
        )
    if found["halt"]:
        print_fields(found["halt"]["detail"])
        return
    if found["batch"]:
        columns = ("partition", "from_offset", "until_offset", "offsets")
        rows = [[item[name] for name in columns] for item in found["batch"]["ranges"]]
        print_table([name.replace("_", " ") for name in columns], rows)
    _show_rest(found)
    for step in found.get("steps", []):
        print_line(f"\n{step['step']} {step['name']}")
        for sentence in step["does"]:
            print_line(f"  {sentence}")
    if "spark" in found:
        print_line(f"\nSpark's plan of the job (steps 2 to 5)\n{found['spark']}")


def _sentence(found: Mapping[str, Any]) -> str:
    if found["halt"]:
        halt, halted = found["halt"], found["state"] == "halted"
        when = "halted" if halted else "will halt on its next run"
        how = "To see how to settle it" if halted else "Once it has, to see how to settle it"
        return f"{when} ({halt['code']}): {halt['reason']} {how}: {halt['command']}"
    if found["nothing"]:
        return f"nothing to read: {found['nothing']}."
    batch = found["batch"]
    what = f"batch {batch['batch_id']}, to be read again: " if batch["again"] else "a new batch of "
    return f"{what}{batch['offsets']:,} offsets of {found['topic']} in {batch['tasks']} tasks"


def _show_rest(found: Mapping[str, Any]) -> None:
    print_fields(
        {
            "left after it": f"{found['left']:,} of {found['lag']:,} unread offsets",
            "added": (
                ", ".join(f"partition {item['partition']} from {item['next_offset']}" for item in found["added"])
                or None
            ),
            "waiting": ", ".join(f"partition {number}" for number in found["waiting"]) or None,
            "delivery": found["delivery"],
            "dead letters": found["dead_letters"]["rule"],
            **{item["table"]: f"{item['disposition']}: {item['how']}" for item in found["tables"]},
        }
    )
