"""Decides which changed contracts a run applies by itself, and which need a person.

By default a run applies every change for which the tables need no statement. With `evolution: additive` in the contract
it applies free changes, with their statements, and nothing else. The rest is for `tidegate contract apply`, which a
person runs; rows that have other keys now are for a replay.
"""

from collections.abc import Sequence

from platform_defs.contract.evolution.changes import ChangeClass
from platform_defs.contract.evolution.plan import ChangePlan
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural

_UNATTENDED = (ChangeClass.WORDS, ChangeClass.FREE, ChangeClass.NEW_PIPELINE)  # the halt of the last decides


def refuse_version(found: ChangePlan, applied_by: str, *, by_command: bool) -> None:
    """Raise BadInput if the version does not fit the change, and versions count: once a person has applied one
    (`by_command`), or if runs alter tables by themselves.
    """
    if (by_command or found.new.evolution == "additive") and found.version_mistake:
        by = f"(applied: {found.old.version}, by {applied_by})"
        raise BadInput(f"{found.version_mistake} {by}", field="version")


def refuse_attended(found: ChangePlan, *, published: bool, unknown_fields: int = 0) -> None:
    """Raise BadInput, with the command, if a person has to apply the change, or to replay for it. `published`: the
    pipeline has published a batch. `unknown_fields`: how many of the latest messages have fields that the contract did
    not name.
    """
    name, since = found.new.pipeline, f"its contract has changed since {found.old.version} was applied"
    if found.found_otherwise and published:
        changes = "; ".join(f"{item.what}: {item.sentence}" for item in found.found_otherwise)
        rebuild = f"Nothing was written. Rebuild the rows from the log: tidegate replay {name}"
        raise BadInput(f"{since}: {changes}. {rebuild}", field=name)
    refuse_declassified(found)
    additive = found.new.evolution == "additive"
    others = [change for change in found.changes if change.kind not in _UNATTENDED]
    if (found.statements and not additive) or (others and additive):
        what = "; ".join([item.sql for item in found.statements] or [change.what for change in found.changes])
        raise BadInput(
            f"{since}, but the tables have not: {what}. Nothing was written. To see the changes: tidegate contract "
            f"diff {name}. To apply them: tidegate contract apply {name} --yes",
            field=name,
        )
    added = sorted({item.name for item in found.new.message_fields} - {item.name for item in found.old.message_fields})
    if additive and added and unknown_fields and found.new.format == "json":
        raise _perhaps_sent(found, added, unknown_fields)


def refuse_declassified(found: ChangePlan) -> None:
    """Raise BadInput, with the command, if values that were classified would be shown."""
    if not found.declassified:
        return
    name, what = found.new.pipeline, "; ".join(change.what for change in found.declassified)
    first = f". Before that, correct the version: {found.version_mistake}" if found.version_mistake else ""
    refused = found.found_otherwise or any(item.refused and item.kind == "retype" for item in found.statements)
    apart = ". That command refuses changes that need a replay: leave those for the next version" if refused else ""
    raise BadInput(
        f"its contract has changed since {found.old.version} was applied: {what}. Nothing was written. To keep the "
        "values hidden, classify them again. To show them, run: "
        f"tidegate contract apply {name} --allow declassify --yes{first}{apart}",
        field=name,
    )


def _perhaps_sent(found: ChangePlan, added: Sequence[str], unknown_fields: int) -> BadInput:
    """Return the error for a JSON field that writers may already send: without a schema, its types are unknown."""
    name = found.new.pipeline
    return BadInput(
        f"its contract now reads {', '.join(added)}, and {plural(unknown_fields, 'message')} in its latest batches "
        "had fields that the previous contract did not read. Messages in which one of these fields has a different "
        "type would become dead letters. Nothing was written. Compare the latest messages: tidegate contract diff "
        f"{name} --messages 1000; then: tidegate contract apply {name} --yes",
        field=name,
    )
