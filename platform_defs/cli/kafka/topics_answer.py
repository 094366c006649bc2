"""The answers of `tidegate topics`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from platform_defs.cli.output import Output, print_error, print_json, print_line, print_table

if TYPE_CHECKING:
    from platform_defs.operations.topics.topic_list import TopicList
    from platform_defs.operations.topics.topic_plan import Judged
    from platform_defs.topics.violations import Violation


def print_judged(judged: Judged, output: Output) -> None:
    """Print the steps, then the violations of the rules."""
    if output is Output.json:
        print_json(judged_json(judged))
        return
    for step in judged.plan.steps:
        print_line(f"{step.topic}: {step.sentence()}")
    for verdict in judged.verdicts:
        print_error(str(verdict))
    if judged.refused:
        print_error("Nothing can be applied until you fix the refused items above.")
    elif not judged.plan.steps:
        print_line("Nothing to do: every topic exists and is as declared.")


def judged_json(judged: Judged) -> dict[str, Any]:
    """Return the document of `tidegate topics plan -o json`."""
    verdicts = [_verdict_json(verdict) for verdict in judged.verdicts]
    return {"refused": judged.refused, "verdicts": verdicts, "plan": asdict(judged.plan)}


def print_topics(listed: TopicList) -> None:
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


def _verdict_json(verdict: Violation) -> dict[str, Any]:
    place = asdict(verdict.place) if verdict.place else {"file": None, "line": None, "field": None}
    text = {"severity": verdict.severity, "rule": verdict.rule, "topic": verdict.topic or None}
    return {**text, "message": verdict.message, **place}
