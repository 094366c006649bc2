"""The answers of `tidegate contract diff` and `apply`: the changes, the statements, and what to do next."""

from typing import Any

from platform_defs.cli.output import print_line, print_table
from platform_defs.contract_changes.cli.gate_answer import changes_json
from platform_defs.contract_changes.evolve import Proposal, replay_command
from platform_defs.contract_changes.preview import Preview
from platform_defs.errors.words import noun_for, plural

WRITER = ("key", "generation", "fit", "reason", "messages", "first_batch")  # fields of a schema in the document
UNKNOWN = (
    "The previous contract is unknown: the ledger has not recorded one yet, so only the tables are compared, and "
    "changed rules or fields are not shown. If you edited the file since the last run, revert it, let the pipeline "
    "run once, and then edit it again."
)


def as_json(found: Proposal, *, applied: bool, preview: Preview | None) -> dict[str, Any]:
    """Return the document that the help describes."""
    plan = found.plan
    statements = [
        {"table": item.table, "column": item.column, "sql": item.sql, "refused": item.refused or None}
        for item in plan.statements
    ]
    document: dict[str, Any] = {
        "pipeline": plan.new.pipeline,
        "version": plan.old.version if found.known else None,
        "becomes": plan.new.version,
        "bump": plan.bump.value,
        "changes": changes_json(plan.changes),
        "statements": statements,
        "tables": [table.name for table in found.tables],
        "refused": list(found.refusals),
        "needs_replay": plan.needs_replay,
        "loosened": dict(found.dead_letters),
        "writers": [{name: getattr(one, name) for name in WRITER} for one in found.writers],
        "nullable": list(found.nullable),
        "applied": applied,
    }
    return document | ({"preview": preview.to_json()} if preview else {})


def show(found: Proposal, preview: Preview | None, *, applied: bool) -> None:
    """Print the plan for a person, then what was done or what to do next."""
    plan = found.plan
    if not found.known:
        print_line(UNKNOWN)
    print_line(f"{plan.new.pipeline} {plan.old.version if found.known else '(not known)'} -> {plan.new.version}")
    if plan.changes:
        rows = [(f"{change.sign} {change.what}", change.kind.value, change.sentence) for change in plan.changes]
        print_table(["change", "class", "what follows"], rows)
    for table in found.tables:
        print_line(f"  CREATE TABLE {table.name} (empty)")
    for item in plan.statements:
        print_line(f"  {item.sql}{'   -- not in place' if item.refused else ''}")
    for rule, count in found.dead_letters:
        print_line(f"{plural(count, 'open dead letter')} broke {rule}: a replay turns those that pass now into rows.")
    if found.writers:
        fit = sum(one.fit == "fits" for one in found.writers)
        schemas, fits = plural(len(found.writers), "schema"), noun_for(fit, "1 fits", f"{fit} fit")
        print_line(f"Its messages have used {schemas}; {fits} the changed contract.")
        for one in found.writers:
            if one.fit == "does not fit":
                print_line(f"  Does not fit: {one.place}: {one.reason}")
    if found.nullable:
        print_line(
            f"Postgres allows NULL in required columns: {', '.join(found.nullable)}. To set NOT NULL: tidegate "
            f"contract apply {plan.new.pipeline} --not-null"
        )
    if preview:
        print_line(f"The latest {plural(preview.messages, 'message')}, checked against both contracts:")
        before, after = preview.before.dead_letters, preview.after.dead_letters
        reasons = [(f"dead letters: {one}", before[one], after[one]) for one in sorted({*before, *after})]
        print_table(["", "before", "after"], [("rows", preview.before.rows, preview.after.rows), *reasons])
    print_line(_sentence(found, applied=applied))


def _sentence(found: Proposal, *, applied: bool) -> str:
    """Return what was done, or what to do next."""
    plan, name = found.plan, found.plan.new.pipeline
    if applied:
        then = f" Runs wait until its rows have been rebuilt: {replay_command(name)}" if plan.needs_replay else ""
        return f"Applied. The next run of {name} uses it.{then}"
    if found.empty:
        but = ", except for NOT NULL" if found.nullable else ""
        return f"Nothing to apply: the ledger already has this contract, and the tables match it{but}."
    if found.refusals:
        return f"The contract cannot be applied as it is: {'; '.join(found.refusals)}.{found.remedy}"
    return f"Nothing was applied. To apply it: tidegate contract apply {name} --yes, with the same options"
