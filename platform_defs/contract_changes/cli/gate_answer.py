"""The answers of `tidegate contract check`: for people, for a program, and for the log of GitHub's actions."""

from collections.abc import Iterable
from typing import Any

from platform_defs.cli.output import print_json, print_line
from platform_defs.contract.evolution.changes import Change
from platform_defs.contract_changes.gate_result import Checked, Gate


def show(found: Gate, form: str) -> None:
    """Print the answer in one of the forms text, json, github."""
    if form == "json":
        contracts = list(map(_json, found.contracts))
        print_json({"against": found.against, "fits": found.code == 0, "error": found.error, "contracts": contracts})
        return
    if found.error and not any(item.result == "not compared" for item in found.contracts):  # each of those says it
        message = f"Nothing was compared with {found.against}: {found.error}"
        print_line(f"::error title=tidegate contract check::{_data(message)}" if form == "github" else message)
    elif not found.contracts and form == "text":
        registry = found.against == "registry"
        why = "no contract has messages that use registry schemas" if registry else "there are no contracts"
        print_line(f"Nothing to check against {found.against}: {why}.")
    for item in found.contracts:
        for line in _github(item) if form == "github" else _text(item):
            print_line(line)


def changes_json(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Return each change, as every command prints it."""
    names = ("sign", "what", "sentence", "table", "column")
    return [{"class": change.kind.value, **{name: getattr(change, name) for name in names}} for change in changes]


def _json(item: Checked) -> dict[str, Any]:
    plan = item.plan
    return {
        "pipeline": item.pipeline,
        "file": str(item.file) if item.file else None,
        "line": item.line,
        "result": item.result,
        "version": plan.old.version if plan else None,
        "becomes": plan.new.version if plan else None,
        "bump": plan.bump.value if plan else None,
        "changes": changes_json(plan.changes) if plan else [],
        "problems": list(item.problems),
        "notices": list(item.notices),
    }


def _text(item: Checked) -> Iterable[str]:
    versions = f" {item.plan.old.version} -> {item.plan.new.version}" if item.plan and item.plan.changes else ""
    yield f"{item.pipeline}{versions}: {item.result}"
    for change in item.plan.changes if item.plan else ():
        yield f"  {change.sign} {change.what} ({change.kind.value}): {change.sentence}"
    for line in (*item.problems, *item.notices):
        yield f"  {line}"


def _github(item: Checked) -> Iterable[str]:
    """Yield workflow commands: https://docs.github.com/actions/reference/workflow-commands-for-github-actions"""
    place = f"file={_property(str(item.file))}," if item.file else ""
    place += f"line={item.line}," if item.line else ""
    for problem in item.problems:
        yield f"::error {place}title={_property(item.pipeline)}::{_data(problem)}"
    for notice in item.notices:
        yield f"::notice {place}title={_property(item.pipeline)}::{_data(notice)}"
    if not item.problems and item.plan and item.plan.changes:
        yield f"::notice {place}title={_property(item.pipeline)}::{_data('; '.join(c.what for c in item.plan.changes))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
