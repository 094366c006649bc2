"""`tidegate lag`: how far behind its topic each pipeline is."""

from typing import Any

import typer

from platform_defs.cli.output import Output, OutputOption, print_json, print_line, print_table
from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput

app = typer.Typer()


@app.command()
def lag(
    pipeline: str | None = typer.Argument(None, help="Such as bank_transfers; all of them where none is given."),
    output: OutputOption = Output.human,
) -> None:
    """Show position, end (the last stable offset) and lag of each partition, and whether the pipeline is halted."""
    from assets import find_pipeline, find_pipelines
    from resources.endpoints import connection
    from resources.kafka.broker import KafkaBroker
    from resources.postgres.ledger import Ledger

    pipelines, endpoints = [find_pipeline(pipeline)] if pipeline else find_pipelines(), connection()
    ledger, broker = Ledger(endpoints.postgres_url), KafkaBroker(endpoints.kafka_options())
    found = [_lag(item, ledger, broker, must_exist=pipeline is not None) for item in pipelines]
    if output is Output.json:
        print_json(found[0] if pipeline else {"pipelines": found})
        return
    for item in found:
        print_line(_sentence(item))
        if item["partitions"]:
            rows = [[part[name] for name in _COLUMNS] for part in item["partitions"]]
            print_table([name.replace("_", " ") for name in _COLUMNS], rows)


_COLUMNS = ("partition", "position", "end", "lag", "batch_id", "committed_at")


def _lag(pipeline: Pipeline, ledger: Any, broker: Any, *, must_exist: bool) -> dict[str, Any]:
    contract = pipeline.contract
    status = ledger.status(pipeline.name) or {"state": "active", "halt_code": None, "waiting": None, "owner": None}
    answer = {
        "pipeline": pipeline.name,
        "topic": contract.topic,
        "state": status["state"],
        "halt_code": status["halt_code"],
        "running": status["owner"] is not None and ledger.alive(pipeline.name, status["owner"]),
        "backed_off": bool(status["waiting"]),
        "lag": 0,
        "partitions": [],
    }
    try:
        view = broker.describe(contract.topic)
    except BadInput:
        if must_exist:
            raise
        return {**answer, "lag": None}
    at = {row["partition"]: row for row in ledger.rows("progress", pipeline=pipeline.name, topic=contract.topic)}
    for number, held in sorted(view.partitions.items()):
        row = at.get(number, {})
        answer["partitions"].append(
            {
                "partition": number,
                "position": row.get("next_offset"),
                "end": held.end,
                "lag": max(0, held.end - row.get("next_offset", held.low)),
                "batch_id": row.get("batch_id"),
                "committed_at": row.get("committed_at"),
            }
        )
    return {**answer, "lag": sum(part["lag"] for part in answer["partitions"])}


def _sentence(item: dict[str, Any]) -> str:
    if item["lag"] is None:
        return f"{item['pipeline']}: topic {item['topic']} does not exist yet (tidegate produce {item['pipeline']})"
    halted = f"HALTED ({item['halt_code']}; tidegate ack {item['pipeline']})"
    state = halted if item["state"] == "halted" else "running" if item["running"] else "active"
    waits = ", waits after a failed gate" if item["backed_off"] else ""
    return f"{item['pipeline']}: {item['lag']} messages behind {item['topic']}, {state}{waits}"
