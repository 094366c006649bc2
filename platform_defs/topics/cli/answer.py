"""The answers of `tidegate topics`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from platform_defs.cli.output import Output, print_error, print_json, print_line, print_table

if TYPE_CHECKING:
    from platform_defs.topics.apply import CheckedPlan
    from platform_defs.topics.topic_list import TopicList
    from platform_defs.topics.violations import Violation


def print_checked(checked: CheckedPlan, output: Output) -> None:
    """Print the steps, then the violations of the rules."""
    if output is Output.json:
        print_json(checked_json(checked))
        return
    for step in checked.plan.steps:
        print_line(f"{step.topic}: {step.sentence()}")
    for violation in checked.violations:
        print_error(str(violation))
    if checked.refused:
        print_error("Nothing can be applied until you fix the refused items above.")
    elif not checked.plan.steps:
        print_line("Nothing to do: every topic exists and is as declared.")


def checked_json(checked: CheckedPlan) -> dict[str, Any]:
    """Return the document of `tidegate topics plan -o json`."""
    violations = [_violation_json(violation) for violation in checked.violations]
    return {"refused": checked.refused, "violations": violations, "plan": asdict(checked.plan)}


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


def _violation_json(violation: Violation) -> dict[str, Any]:
    place = asdict(violation.place) if violation.place else {"file": None, "line": None, "field": None}
    text = {"severity": violation.severity, "rule": violation.rule, "topic": violation.topic or None}
    return {**text, "message": violation.message, **place}
